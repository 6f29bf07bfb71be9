#include "passes/sharding/slices.hpp"

#include "ir/ops/op_table.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Where the op's result begins in its operand; nothing if it is not one box of it.
std::optional<std::vector<i64>> begin_of(const Graph& graph, const Op& op)
{
    const FactorRule rule = rule_of(graph, op);
    std::vector<i64> begin;
    for (std::size_t d = 0; d < rule.results[0].size(); ++d) {
        const Factor& from = rule[rule.operands[0][d]];
        if (from.window && (from.window->of != rule.results[0][d] || from.window->stride != 1))
            return {};
        begin.push_back(from.window ? -from.window->low : 0);
    }
    return begin;
}

bool reads_by_window(const Graph& graph, const Op& op, std::size_t operand)
{
    const OpInfo& row = info(op);
    if (row.placement || row.contributes || row.communicates || row.manual || op.accumulate)
        return false;
    const FactorRule rule = rule_of(graph, op);
    return operand < rule.operands.size() &&
           std::ranges::any_of(rule.operands[operand], [&](int dim) { return rule[dim].window.has_value(); });
}

} // namespace

Box SliceOf::in_whole(Box box) const
{
    for (std::size_t d = 0; d < box.offset.size(); ++d)
        box.offset[d] += offset[d];
    return box;
}

std::vector<std::optional<SliceOf>> slices_of(const Graph& graph)
{
    struct Reader {
        const Op* op = nullptr;
        std::size_t operand = 0;
    };
    std::vector<Reader> readers(graph.values.size());
    for (const Op& op : graph.ops)
        for (std::size_t i = 0; i < op.operands.size(); ++i)
            readers[op.operands[i].index()] = {&op, i};
    const std::vector<int> uses = uses_of(graph);
    std::vector<std::optional<SliceOf>> slices(graph.values.size());
    for (const Op& op : graph.ops) {
        if (!info(op).slices || op.stays_partial)
            continue;
        const auto& [reader, operand] = readers[op.results[0].index()];
        if (uses[op.results[0].index()] == 1 && reader && reader->region == op.region &&
            reader->phase == op.phase && reader->block == op.block &&
            reads_by_window(graph, *reader, operand))
            if (auto begin = begin_of(graph, op))
                slices[op.results[0].index()] = {op.operands[0], *std::move(begin)};
    }
    return slices;
}

} // namespace trivium
