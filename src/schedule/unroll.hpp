#pragma once
// The ops, feeds and fetches of an optimizer step, in the order of its Steps.
#include "schedule/order.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// One run of an op, or a feed or fetch of a value. It becomes one Step, except a view, which becomes none.
struct Item {
    StepKind kind = StepKind::op;
    OpId op;             ///< for op
    ValueId value;       ///< for feed and fetch
    i64 microbatch = -1; ///< -1: of the step region
};

struct Unrolled {
    std::vector<Item> items;
    std::size_t decision = 0; ///< index of the first item after the decision (Schedule::decision)
};

/// Each microbatch forward through the graph's stages, then backward.
RankOrder plain_order(const Graph& graph, i64 microbatches);

/// Whether the outputs are about the previous step (passes/pipeline/post_validate.hpp): the prologue computes
/// some.
bool decides_early(const Graph& graph);

/// The phases whose ops a task runs.
std::span<const Phase> phases_of(Work work);

/// The regions of the graph, unrolled over the microbatches in the order of the tasks. A task without ops of
/// its stage and phase adds only feeds. The decision is before the update or, if the graph decides early,
/// after the first `head` tasks.
Unrolled unroll(const Graph& graph, const RankOrder& tasks, i64 head = 0);

/// Whether some op belongs to the backward pass.
bool trains(const Graph& graph);

} // namespace trivium
