#include "plan/advice.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/propagate.hpp"
#include "plan/graph_file.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace trivium {

namespace {

Bytes sent(const std::vector<CollectiveEntry>& all)
{
    Bytes bytes = 0;
    for (const CollectiveEntry& entry : all)
        bytes += entry.bytes;
    return bytes;
}

Sharding closed(const Sharding& sharding)
{
    Sharding made;
    for (const DimSharding& dim : sharding.dims)
        made.dims.push_back({dim.axes, false});
    return made;
}

i64 parts_of(const Sharding& sharding, const Mesh& mesh)
{
    i64 parts = 1;
    for (const DimSharding& dim : sharding.dims)
        parts *= mesh.parts_along(dim.axes);
    return parts;
}

/// The sharding with the axes left out, and with each of them, and all, at the end of each dimension.
std::vector<Sharding> variants(const Sharding& sharding, const Shape& shape, const Mesh& mesh,
                               const std::vector<std::string>& axes)
{
    Sharding without = closed(sharding);
    for (DimSharding& dim : without.dims)
        std::erase_if(dim.axes, [&](const std::string& name) {
            return std::ranges::any_of(axes, [&](const auto& axis) { return mesh.overlap(axis, name); });
        });
    std::vector<std::vector<std::string>> added;
    for (const std::string& axis : axes)
        added.push_back({axis});
    if (axes.size() > 1)
        added.push_back(axes);
    std::vector<Sharding> all{without};
    for (const std::vector<std::string>& some : added)
        for (std::size_t d = 0; d < shape.size(); ++d) {
            Sharding one = without;
            one.dims[d].axes.insert(one.dims[d].axes.end(), some.begin(), some.end());
            if (mesh.parts_along(one.dims[d].axes) <= shape[d] && one.dims != sharding.dims)
                all.push_back(std::move(one));
        }
    return all;
}

/// All that a rank sends if the value has this annotation; nothing if that is not possible.
std::optional<Bytes> sent_with(Graph graph, ValueId v, const Sharding& sharding, const WorkPrices& work)
{
    graph[v].sharding = sharding;
    try {
        verify(graph, Level::global);
        return sent(collectives_of(local_graph(propagate(std::move(graph)), 0, work)));
    } catch (const UserError&) {
        return {};
    }
}

} // namespace

std::vector<Advice> advise(const Graph& graph, const Graph& sharded, double share, int tries,
                           const WorkPrices& work)
{
    // On a large mesh one takes seconds.
    tries = static_cast<int>(std::min<i64>(tries, std::max<i64>(1024 / graph.mesh.ranks(), 2)));
    const Graph local = rank_graph(sharded, 0, work);
    const std::vector<CollectiveEntry> all = collectives_of(local);
    double tensors = 0;
    for (const Value& v : local.values)
        tensors += static_cast<double>(v.type.bytes());
    const Bytes before = sent(all);
    const ValueNames names = values_by_name(sharded);
    std::vector<Advice> list;
    std::set<std::pair<ValueId, std::vector<std::string>>> tried;
    for (const CollectiveEntry& entry : all) {
        if (static_cast<double>(entry.bytes) <= share * tensors)
            continue;
        Advice advice;
        advice.collective = entry;
        advice.share = static_cast<double>(entry.bytes) / tensors;
        const ValueId from = global_value(names, entry.value), made = global_value(names, entry.made);
        if (from)
            advice.collective.value = sharded[from].name;
        i64 parts = 0; // among equals, the one with the smallest shards
        const auto consider = [&](ValueId v, const Sharding& annotation) {
            if (--tries < 0)
                return;
            const std::optional<Bytes> after = sent_with(graph, v, annotation, work);
            if (!after || before - *after <= 0)
                return;
            const i64 these = parts_of(annotation, graph.mesh);
            if (std::pair(before - *after, these) > std::pair(advice.saved, parts)) {
                advice = {advice.collective, advice.share,        graph[v].name,  graph[v].type,
                          graph[v].line,     to_text(annotation), before - *after};
                parts = these;
            }
        };
        std::vector<ValueId> moved{from};
        for (const std::string& more : entry.more)
            moved.push_back(global_value(names, more));
        bool first = false;
        for (const ValueId v : moved)
            if (v && tried.emplace(v, entry.axes).second) {
                first = first || v == from;
                for (const Sharding& one :
                     variants(sharded[v].sharding, sharded[v].type.shape, sharded.mesh, entry.axes))
                    consider(v, one);
            }
        if (made && from && made != from && first && sharded[made].type.shape == sharded[from].type.shape)
            consider(made, closed(sharded[from].sharding)); // it stays as it is
        list.push_back(std::move(advice));
    }
    return list;
}

} // namespace trivium
