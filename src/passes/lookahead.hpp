#pragma once
// Between propagation and partitioning: where ops alone would move tensors, the shardings of ops, and those
// in which values without an annotation are kept, are chosen together. Sharded graph in and out.
#include "passes/partition.hpp"

namespace trivium {

/// Minimises what a rank sends, in bytes (Pricing::bytes_moved): for each value from the layout in which its
/// op makes it to the sharding in which it is kept, and from there to each layout or box in which ops read
/// it, where readers of one phase share a copy. Added is the work of each op beyond that with the axes of its
/// tensors (Pricing::work), so that ranks do not compute the same in order to send less. Where costs are
/// equal, it prefers fewer collectives, then less memory traffic: a byte that an op reads or writes costs
/// 1e-3, a collective as much as four ops that read and write the whole tensor. A value that outlives the
/// microbatch must not move in it.
///
/// Each op near a value that moves chooses among its assignments of axes to factors (all of them, or the
/// cheapest of those of the partitioner if they are more than 64, in large graphs 16, on large meshes
/// 4096 / ranks), and if it is linear among the partial
/// sums that it may leave open. Each value without an annotation chooses among the shardings in which these
/// ops make and read it; of an annotation, open dimensions may get other axes than propagation gave them.
/// Near is within 3 ops. The choices are variables and the costs tables over neighbours, which variable
/// elimination minimises exactly wherever no table needs more than `elimination_limit` entries, or 2^19 /
/// variables (sharding/elimination.hpp), as in chains, trees and most small graphs; beyond, some variables
/// keep their value in each of up to 4 rounds. The time is linear in the number of ops. The formulation is
/// that of Alpa (arXiv:2201.12023, section 4), without memory, and solved without an ILP.
///
/// What a user or the model annotated, inputs, outputs, carries, and sums that may wait stay as they are. A
/// value that is kept for a later phase takes no more memory than propagation intended. All stages of a
/// pipeline look ahead together, and before the schedule or recomputation adds to the graph: none of these
/// may change a choice, and with it the rounding. `config.at` is not used.
Graph look_ahead(const Graph& graph, const PartitionConfig& config);

/// By value, whether it is only ever added into one carried accumulator, in every microbatch. It may stay
/// partial: what it lacks is summed once, with the accumulator.
std::vector<bool> sums_that_wait(const Graph& graph);

} // namespace trivium
