#include "passes/memory/zero.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace trivium {

namespace {

/// How many parts `sharding` makes of a tensor over `axis` and parts of it.
i64 parts_over(const Sharding& sharding, const Mesh& mesh, const std::string& axis)
{
    i64 parts = 1;
    for (const DimSharding& dim : sharding.dims)
        for (const std::string& name : dim.axes)
            if (mesh.overlap(name, axis))
                parts *= mesh.size(name);
    return parts;
}

} // namespace

/// The dimensions of a tensor while parts of an axis are assigned to them.
class FurtherSharding::Dims {
public:
    Dims(const Sharding& sharding, const Shape& shape, const Mesh& mesh) : shape_(shape)
    {
        for (const DimSharding& dim : sharding.dims) {
            open_.push_back(dim.open);
            parts_.push_back(mesh.parts_along(dim.axes));
        }
    }

    /// The open dimension to shard over `ranks` more ranks, or -1.
    int find(i64 ranks) const
    {
        int longest = -1;
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            if (!open_[d])
                continue;
            if (shape_[d] % (parts_[d] * ranks) == 0)
                return static_cast<int>(d);
            if (extent(d) >= ranks && (longest < 0 || extent(d) > extent(static_cast<std::size_t>(longest))))
                longest = static_cast<int>(d);
        }
        return longest;
    }
    /// As find(), and shards it. \returns the dimension, or -1
    int take(i64 ranks)
    {
        const int d = find(ranks);
        if (d >= 0)
            parts_[static_cast<std::size_t>(d)] *= ranks;
        return d;
    }
    /// Elements of a shard along the open dimensions.
    i64 elements() const
    {
        i64 count = 1;
        for (std::size_t d = 0; d < shape_.size(); ++d)
            count *= open_[d] ? extent(d) : 1;
        return count;
    }

private:
    i64 extent(std::size_t d) const { return shape_[d] / parts_[d]; } ///< of the smallest shard

    const Shape& shape_;
    std::vector<bool> open_;
    std::vector<i64> parts_;
};

FurtherSharding::FurtherSharding(const Graph& graph, std::string axis)
    : mesh_(graph.mesh), parts_(graph, true), axis_(std::move(axis))
{
}

FurtherSharding::FurtherSharding(const Mesh& mesh, const std::vector<std::string>& names, std::string axis)
    : mesh_(mesh), parts_(mesh, names, true), axis_(std::move(axis))
{
}

PartList FurtherSharding::free_parts(const Sharding& sharding) const
{
    PartList own;
    for (const DimSharding& dim : sharding.dims)
        for (const PartId part : parts_.parts_of(dim.axes))
            own.push_back(part);
    PartList longest;
    for (PartList run; const PartId part : parts_.parts_of(axis_)) {
        if (holds(own, part))
            run.clear();
        else
            run.push_back(part);
        if (longest.empty() || parts_.ranks_along(run) > parts_.ranks_along(longest))
            longest = run;
    }
    return longest;
}

Sharding FurtherSharding::operator()(Sharding sharding, const Shape& shape) const
{
    sharding.dims.resize(shape.size());
    sharding.origin = "the optimizer";
    const PartList free = free_parts(sharding);
    const i64 ranks = parts_.ranks_along(free);
    Dims dims(sharding, shape, mesh_);
    std::vector<int> dim_of(free.size(), -1); // by part
    if (const int all = dims.find(ranks); all >= 0)
        std::ranges::fill(dim_of, all);
    else if (dims.elements() >= ranks)
        for (auto same = dim_of.begin(); same != dim_of.end();) {
            const auto first = same;
            const i64 size = parts_[free[static_cast<std::size_t>(first - dim_of.begin())]].size;
            while (same != dim_of.end() &&
                   parts_[free[static_cast<std::size_t>(same - dim_of.begin())]].size == size)
                *same++ = dims.take(size);
            // So that the parts of a dimension are neighbours, and what is left over comes last.
            std::sort(first, same, [](int a, int b) { return b < 0 ? a >= 0 : a >= 0 && a < b; });
        }
    for (std::size_t d = 0; d < shape.size(); ++d) {
        sharding.dims[d].open = false;
        PartList list;
        for (std::size_t i = 0; i < free.size(); ++i)
            if (dim_of[i] == static_cast<int>(d))
                list.push_back(free[i]);
        for (std::string& name : parts_.names_of(list))
            sharding.dims[d].axes.push_back(std::move(name));
    }
    return sharding;
}

bool shards(const Sharding& sharding, const std::string& axis)
{
    return std::any_of(sharding.dims.begin(), sharding.dims.end(), [&](const DimSharding& dim) {
        return std::ranges::any_of(
            dim.axes, [&](const std::string& own) { return own.substr(0, own.find(':')) == axis; });
    });
}

bool is_shared(const Sharding& sharding, const Mesh& mesh, const std::string& axis)
{
    return parts_over(sharding, mesh, axis) < mesh.size(axis);
}

Graph gather_in_microbatches(Graph graph)
{
    Builder b(graph);
    const std::size_t count = graph.ops.size();
    std::vector<std::size_t> places;                     // of each new op: before this one
    std::map<std::pair<ValueId, int>, ValueId> gathered; // by the prologue's value and block
    for (std::size_t i = 0; i < count; ++i) {
        if (graph.ops[i].region != Region::microbatch)
            continue;
        for (std::size_t o = 0; o < graph.ops[i].operands.size(); ++o) {
            const ValueId whole = graph.ops[i].operands[o];
            const OpId producer = graph[whole].producer;
            if (!producer || !info(graph[producer]).placement || graph[producer].region != Region::prologue)
                continue;
            const Op& reader = graph.ops[i];
            ValueId& here = gathered[{whole, reader.block}];
            if (!here) {
                const ValueId shard = graph[producer].operands[0];
                b.where = {Region::microbatch, reader.phase, reader.block, reader.scope};
                here = b.reshard_to(shard, graph[whole].sharding, graph[whole].name);
                places.push_back(i);
            }
            graph.ops[i].operands[o] = here; // not `reader`: the vector of ops may have grown
        }
    }
    move_before(graph, count, places);
    return graph;
}

} // namespace trivium
