#include "passes/simplify.hpp"

#include "ir/needed.hpp"
#include "ir/ops/fusions.hpp"

namespace trivium {

Graph simplify(Graph graph) { return only_needed(std::move(graph)); }

Graph without_idle_ops(Graph graph)
{
    std::vector<bool> named(graph.values.size(), false); // by outputs or carries
    for (const ValueId id : graph.outputs)
        named[id.index()] = true;
    for (const Carry& carry : graph.carries)
        named[carry.out.index()] = true;
    std::vector<ValueId> instead(graph.values.size());
    for (Op& op : graph.ops) {
        for (ValueId& v : op.operands)
            if (instead[v.index()])
                v = instead[v.index()];
        if (!is_idle(graph, op) || named[op.results[0].index()])
            continue;
        const Value &from = graph[op.operands[0]], &to = graph[op.results[0]];
        if (from.role == Role::computed && from.lifetime == to.lifetime && from.space == to.space)
            instead[op.results[0].index()] = op.operands[0];
    }
    return simplify(std::move(graph));
}

void drop_unproduced(Graph& graph)
{
    std::vector<bool> kept(graph.values.size(), false);
    for (std::size_t i = 0; i < kept.size(); ++i)
        kept[i] = graph.values[i].role != Role::computed;
    for (const Op& op : graph.ops)
        for (const ValueId v : op.results)
            kept[v.index()] = true;
    keep_only(graph, std::vector<bool>(graph.ops.size(), true), kept);
}

} // namespace trivium
