#include "passes/collectives/fill_waits.hpp"

#include "ir/collectives.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace trivium {

namespace {

bool is_backward(const Op& op) { return op.region == Region::microbatch && op.phase == Phase::backward; }

/// By op: whether it is of a backward pass and nothing of the pass that communicates depends on it. What
/// reads gathered parameters or messages stays: its place decides when others of them travel
/// (schedule/place.hpp), which must be alike on all ranks, while durations differ.
std::vector<bool> movable(const Graph& g)
{
    const auto decides = [&](ValueId v) {
        const OpId from = g[v].producer;
        return from && (gathers_parameters(g, g[from]) || g[from].attrs.tag);
    };
    std::vector<bool> needed(g.values.size(), false), can(g.ops.size(), false);
    for (std::size_t i = g.ops.size(); i-- > 0;) {
        const Op& op = g.ops[i];
        if (!is_backward(op))
            continue;
        can[i] = !info(op).communicates && !info(op).contributes &&
                 std::ranges::none_of(op.operands, decides) &&
                 std::ranges::none_of(op.results, [&](ValueId v) { return needed[v.index()]; });
        if (!can[i])
            for (const ValueId v : op.operands)
                needed[v.index()] = true;
    }
    return can;
}

} // namespace

Graph fill_waits(Graph g, const OverlapSeconds& seconds)
{
    std::vector<bool> can = movable(g);
    const std::vector<bool> reduces = gradient_reductions(g);
    const auto waits_for = [&](std::size_t i) {
        const Op& op = g.ops[i];
        return is_backward(op) && info(op).communicates && !op.attrs.tag && !reduces[i] &&
               !gathers_parameters(g, op);
    };
    bool waits = false;
    for (std::size_t i = 0; i < g.ops.size() && !waits; ++i)
        waits = waits_for(i);
    if (!waits)
        return g;
    const std::vector<Seconds> time = seconds(g);
    std::vector<std::size_t> order; // of the ops
    std::size_t since = 0;          // in `order`: behind the collective before
    std::size_t reader = 0;         // the first one of its result: what is before hides it
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        const Op& op = g.ops[i];
        order.push_back(i);
        if (!info(op).communicates)
            continue;
        const std::size_t begin = std::exchange(since, order.size());
        if (!waits_for(i))
            continue;
        Seconds left = time[i]; // without what is computed before the first reader anyway
        const std::size_t before_reader = std::exchange(reader, i + 1);
        for (; reader < g.ops.size() && !info(g.ops[reader]).communicates; ++reader) {
            if (std::ranges::any_of(g.ops[reader].operands, [&](ValueId v) {
                    return std::ranges::find(op.results, v) != op.results.end();
                }))
                break;
            left -= time[reader];
        }
        std::vector<std::size_t> moved, stay;
        std::set<ValueId> overwritten; // by ops that stay
        for (std::size_t at = order.size() - 1; at-- > begin;) {
            const Op& before = g.ops[order[at]];
            const bool moves =
                left > 0 && can[order[at]] && order[at] >= before_reader &&
                stage_of(g, before) == stage_of(g, op) &&
                std::ranges::none_of(before.operands, [&](ValueId v) { return overwritten.contains(v); });
            (moves ? moved : stay).push_back(order[at]);
            if (moves) {
                left -= time[order[at]];
                continue;
            }
            if (can[order[at]]) // others may read it
                break;
            for (std::size_t r = 0; r < before.results.size(); ++r)
                if (const ValueId into = aliased_operand(before, r))
                    overwritten.insert(into);
        }
        order.resize(order.size() - 1 - moved.size() - stay.size());
        order.insert(order.end(), stay.rbegin(), stay.rend());
        order.push_back(i);
        order.insert(order.end(), moved.rbegin(), moved.rend());
        since = order.size();
    }
    std::vector<Op> ops;
    ops.reserve(order.size());
    for (const std::size_t i : order) {
        for (const ValueId v : g.ops[i].results)
            g[v].producer = OpId(ops.size());
        ops.push_back(std::move(g.ops[i]));
    }
    g.ops = std::move(ops);
    return g;
}

} // namespace trivium
