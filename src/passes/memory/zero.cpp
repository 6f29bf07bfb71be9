#include "passes/memory/zero.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "passes/sharding/axis_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace trivium {

namespace {

/// The largest part of the axis that shards no dimension, of neighbouring ones the whole; empty: none.
std::string free_part(const Sharding& sharding, const Mesh& mesh, const std::string& axis)
{
    std::vector<std::string> own;
    for (const DimSharding& dim : sharding.dims)
        for (const std::string& name : dim.axes)
            if (mesh.overlap(name, axis))
                own.push_back(name);
    if (own.empty())
        return axis;
    const AxisParts parts(mesh, own, false);
    PartList free;
    i64 most = 1;
    for (PartList run; const PartId part : parts.parts_of(axis)) {
        if (holds(parts.parts_of(own), part))
            run.clear();
        else
            run.push_back(part);
        if (parts.ranks_along(run) > most) {
            most = parts.ranks_along(run);
            free = run;
        }
    }
    return free.empty() ? std::string() : parts.names_of(free).front();
}

} // namespace

Sharding shard_further(Sharding sharding, const Shape& shape, const Mesh& mesh, const std::string& axis)
{
    sharding.dims.resize(shape.size());
    sharding.origin = "the optimizer";
    const std::string rest = free_part(sharding, mesh, axis);
    if (rest.empty()) {
        for (DimSharding& dim : sharding.dims)
            dim.open = false;
        return sharding;
    }
    const i64 ranks = mesh.size(rest);
    int best = -1;
    i64 best_extent = ranks - 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!std::exchange(sharding.dims[d].open, false))
            continue;
        const i64 parts = mesh.parts_along(sharding.dims[d].axes);
        const i64 extent = shape[d] / parts; // of the smallest shard
        if (extent % ranks == 0 && shape[d] % parts == 0) {
            best = static_cast<int>(d);
            break;
        }
        if (extent > best_extent) {
            best = static_cast<int>(d);
            best_extent = extent;
        }
    }
    for (std::size_t d = static_cast<std::size_t>(best) + 1; d < shape.size(); ++d)
        sharding.dims[d].open = false;
    if (best >= 0)
        sharding.dims[static_cast<std::size_t>(best)].axes.push_back(rest);
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
    return mesh.size(axis) > 1 && !free_part(sharding, mesh, axis).empty();
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
