#include "passes/memory/recompute.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>

namespace trivium {

Recompute recomputed_in(int block, const RecomputeConfig& config, int last)
{
    if (config.ends) {
        ++block;
        last += 2;
    }
    if (block <= 0 || block >= last) // the embedding and the head keep what they compute
        return Recompute::none;
    const i64 all = last - 1, some = config.layers > 0 ? std::min(config.layers, all) : all;
    if (block * some / all > (block - 1) * some / all)
        return config.activations;
    return one_level_less(config.activations);
}

namespace {

/// `head`: the last block.
bool is_chosen(const Graph& graph, const Op& op, const RecomputeConfig& config, int head)
{
    if (op.region != Region::microbatch || op.phase != Phase::forward || op.accumulate)
        return false;
    if (info(op).placement && graph[op.operands[0]].lifetime != Lifetime::microbatch)
        return config.gathers;
    if (config.parts && info(op).parts && op.operands.size() == 1)
        return true;
    switch (recomputed_in(op.block, config, head)) {
    case Recompute::selective: return info(op).cheap;
    case Recompute::full: return true;
    case Recompute::none:
    case Recompute::automatic: break;
    }
    return false;
}

/// Results that decide something: to compute them again might decide otherwise.
bool is_kept(const Op& op, std::size_t result) { return (info(op).kept >> result & 1u) != 0; }

} // namespace

Graph recompute(Graph graph, const RecomputeConfig& config)
{
    TRV_EXPECT(config.activations != Recompute::automatic, "recomputation is not resolved");
    const std::size_t count = graph.ops.size();
    int head = 0;
    for (const Op& op : graph.ops)
        head = std::max(head, op.block);
    std::vector<std::size_t> places; // of each clone: before this op
    // What the gradients of weights read is recomputed in the backward pass, too, and kept.
    std::vector<std::size_t> first_backward(static_cast<std::size_t>(head) + 1, count); // by block
    for (std::size_t i = count; i-- > 0;)
        if (graph.ops[i].region == Region::microbatch && graph.ops[i].phase == Phase::backward)
            first_backward[static_cast<std::size_t>(graph.ops[i].block)] = i;
    // Backwards, so that the operands of a clone are cloned in turn.
    for (std::size_t i = count; i-- > 0;) {
        if (!is_chosen(graph, graph.ops[i], config, head))
            continue;
        Op again = graph.ops[i]; // a copy, because the vectors grow
        again.phase = Phase::backward;
        for (ValueId& result : again.results) {
            Value value = graph[result];
            value.name += ".again";
            value.producer = OpId(graph.ops.size());
            graph.values.push_back(std::move(value));
            result = ValueId(graph.values.size() - 1);
        }
        std::size_t place = count;
        for (std::size_t r = i + 1; r < graph.ops.size(); ++r) {
            Op& reader = graph.ops[r];
            if (reader.region != Region::microbatch || reader.phase == Phase::forward ||
                reader.block != again.block)
                continue;
            const std::size_t own = r < count ? r : places[r - count],
                              begin =
                                  reader.phase == Phase::weights
                                      ? std::min(own, first_backward[static_cast<std::size_t>(reader.block)])
                                      : own;
            for (ValueId& operand : reader.operands)
                for (std::size_t v = 0; v < again.results.size(); ++v)
                    if (operand == graph.ops[i].results[v] && !is_kept(graph.ops[i], v)) {
                        operand = again.results[v];
                        place = std::min(place, begin);
                    }
        }
        if (place == count) {
            graph.values.resize(graph.values.size() - again.results.size());
            continue;
        }
        graph.ops.push_back(std::move(again));
        places.push_back(place);
    }
    // Of clones before one op, the later made is read by the earlier.
    std::reverse(graph.ops.begin() + static_cast<std::ptrdiff_t>(count), graph.ops.end());
    std::reverse(places.begin(), places.end());
    move_before(graph, count, places);
    return graph;
}

} // namespace trivium
