#pragma once
// What becomes the Steps of an optimizer step, in their order.
#include "schedule/order.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// One run of an op, or a feed or fetch of a value: later a Step.
struct Item {
    StepKind kind = StepKind::op;
    OpId op;             ///< for op
    ValueId value;       ///< for feed and fetch
    i64 microbatch = -1; ///< -1: of the step region
};

struct Unrolled {
    std::vector<Item> items;
    std::size_t decision = 0; ///< items from here on change run-lifetime values
};

/// Each microbatch forward through the graph's stages, then backward.
RankOrder plain_order(const Graph& graph, i64 microbatches);

/// Whether the outputs are those of the step before (passes/post_validate.hpp).
bool decides_early(const Graph& graph);

/// The regions of the graph, unrolled over the microbatches in the order of the tasks. Backward tasks of a
/// graph without backward ops count nothing. The decision is before the update or, if the graph decides
/// early, after the first `head` tasks.
Unrolled unroll(const Graph& graph, const RankOrder& tasks, i64 head = 0);

/// Whether some op belongs to the backward pass.
bool trains(const Graph& graph);

} // namespace trivium
