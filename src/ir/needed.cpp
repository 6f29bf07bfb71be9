#include "ir/needed.hpp"

#include "ir/ops/op_table.hpp"

namespace trivium {

Graph only_needed(Graph graph, const std::vector<ValueId>& given)
{
    std::vector<bool> values(graph.values.size(), false), ops(graph.ops.size(), false);
    for (std::size_t i = 0; i < graph.values.size(); ++i)
        values[i] = graph.values[i].role != Role::computed;
    for (const ValueId id : given)
        values[id.index()] = false;
    for (const ValueId id : graph.outputs)
        values[id.index()] = true;
    for (const Carry& carry : graph.carries)
        values[carry.out.index()] = true;
    for (std::size_t i = graph.ops.size(); i-- > 0;) {
        const Op& op = graph.ops[i];
        ops[i] = info(op).communicates && !(info(op).localize && graph.at.empty()); // other ranks participate
        for (const ValueId r : op.results)
            ops[i] = ops[i] || values[r.index()];
        if (!ops[i])
            continue;
        for (const ValueId v : op.operands)
            values[v.index()] = true;
        for (const ValueId v : op.results)
            values[v.index()] = true;
    }
    keep_only(graph, ops, values);
    return graph;
}

} // namespace trivium
