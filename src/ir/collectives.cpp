#include "ir/collectives.hpp"

#include <algorithm>

namespace trivium {

std::vector<std::string> joint_axes(const Graph& graph)
{
    std::vector<std::string> axes;
    for (const Op& op : graph.ops)
        if (info(op).communicates && *op.attrs->axis != world_axis && graph.mesh.find(*op.attrs->axis) < 0)
            axes.push_back(*op.attrs->axis);
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    return axes;
}

bool reduces_to_all(const Op& op) { return op.kind == OpKind::all_reduce; }

bool gathers_parameters(const Graph& graph, const Op& op)
{
    return op.region == Region::microbatch && info(op).communicates && !op.operands.empty() &&
           std::none_of(op.operands.begin(), op.operands.end(),
                        [&](ValueId v) { return graph[v].lifetime == Lifetime::microbatch; });
}

OpId reduction_added_by(const Graph& graph, const Op& op)
{
    if (op.kind != OpKind::accumulate || op.region != Region::microbatch)
        return {};
    const OpId producer = graph[op.operands[0]].producer;
    return producer && graph[producer].region == Region::microbatch && info(graph[producer]).communicates
               ? producer
               : OpId{};
}

std::vector<bool> gradient_reductions(const Graph& graph)
{
    std::vector<bool> found(graph.ops.size(), false);
    for (const Op& op : graph.ops)
        if (const OpId reduction = reduction_added_by(graph, op))
            found[reduction.index()] = true;
    return found;
}

} // namespace trivium
