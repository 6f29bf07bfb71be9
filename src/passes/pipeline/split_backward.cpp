#include "passes/pipeline/split_backward.hpp"

#include <algorithm>

namespace trivium {

Graph split_backward(Graph graph)
{
    const auto is_backward = [](const Op& op) {
        return op.region == Region::microbatch && op.phase == Phase::backward;
    };
    std::vector<std::vector<std::size_t>> readers(graph.values.size());
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        if (is_backward(graph.ops[i]))
            for (const ValueId v : graph.ops[i].operands)
                readers[v.index()].push_back(i);
    std::vector<bool> passed_on(graph.ops.size(), false); // to another block
    for (std::size_t i = graph.ops.size(); i-- > 0;)
        for (const ValueId v : graph.ops[i].results)
            for (const std::size_t reader : readers[v.index()])
                passed_on[i] =
                    passed_on[i] || passed_on[reader] || graph.ops[reader].block != graph.ops[i].block;
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        if (is_backward(graph.ops[i]) && !passed_on[i])
            graph.ops[i].phase = Phase::weights;
    const auto place = [](const Op& op) {
        return std::pair(op.region, op.region == Region::microbatch && op.phase == Phase::weights);
    };
    std::ranges::stable_sort(graph.ops, [&](const Op& a, const Op& b) { return place(a) < place(b); });
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        for (const ValueId v : graph.ops[i].results)
            graph[v].producer = OpId(i);
    return graph;
}

} // namespace trivium
