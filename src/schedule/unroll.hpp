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

/// The regions of the graph, unrolled over the microbatches in the order of the tasks. Backward tasks of a
/// graph without backward ops count nothing.
Unrolled unroll(const Graph& graph, const RankOrder& tasks);

/// Whether some op belongs to the backward pass.
bool trains(const Graph& graph);

} // namespace trivium
