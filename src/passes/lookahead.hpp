#pragma once
// Between propagation and partitioning: where a value that nobody annotated is computed in one sharding and
// read in another, its producer, its readers and its own sharding are chosen together. Sharded graph in and
// out.
#include "passes/partition.hpp"

namespace trivium {

/// Starts from the choice of each op alone. Then it goes over the ops next to values that move, up to four
/// times, and gives each the choice with which all its tensors move the fewest bytes: from where they are
/// computed, over the best sharding to keep them in, to all who read them. What a user or the model
/// annotated, inputs, outputs, carries, and sums that may wait stay as they are. All stages of a pipeline
/// look ahead together, and before the schedule or recomputation adds to the graph: none of these may change
/// a choice, and with it the rounding. `config.at` is not used.
Graph look_ahead(const Graph& graph, const PartitionConfig& config);

/// By value, whether it is only ever added into one carried accumulator, in every microbatch. It may stay
/// partial: what it lacks is summed once, with the accumulator.
std::vector<bool> sums_that_wait(const Graph& graph);

} // namespace trivium
