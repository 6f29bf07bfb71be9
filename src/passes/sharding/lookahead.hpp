#pragma once
// Between propagation and partitioning: near tensors that would move, chooses the shardings of ops and of
// values without an annotation together. Sharded graph in and out.
#include "passes/sharding/partition.hpp"

namespace trivium {

/// Cost: the bytes that a rank sends (Pricing::bytes_moved). Each value moves from the layout in which its op
/// computes it to its sharding, and from there to each layout or box in which ops read it; readers of one
/// phase share a copy. Added is the work of each op beyond the least work with the axes of its tensors
/// (Pricing::work), so that ranks do not repeat each other's work in order to send less. Among equal costs it
/// prefers fewer collectives, then less memory traffic: a byte that an op reads or writes costs 1e-3, a
/// collective as much as four ops that read and write the whole tensor. A value that outlives the microbatch
/// does not move in it.
///
/// Choices: within 3 ops of a tensor that moves, each op chooses among its assignments of axes to factors,
/// and, if it is linear, among running on partial sums and on complete values. If there are more assignments
/// than 16 (if at most 8 ops choose, 4096 / ranks, from 16 to 64), only the cheapest of those that
/// partition() tries remain. Each value without an annotation chooses among the shardings in which these ops
/// compute and read it; an annotation's open dimensions may get other axes than propagation gave them.
///
/// Choices are variables, costs are tables over neighbouring variables. Variable elimination
/// (sharding/elimination.hpp) is exact where no table needs more entries than `elimination_limit` or, if
/// larger, 2^19 / variables: in chains, trees and most small graphs. Elsewhere some variables keep their
/// value in each of up to 4 rounds. The time is linear in the number of ops. The formulation is that of Alpa
/// (arXiv:2201.12023, section 4), without its memory constraint, and solved without an ILP.
///
/// Closed annotations, inputs, outputs, carries, and sums_that_wait() stay as they are. A value that a later
/// phase reads takes no more memory than with propagation's sharding. It runs on the graph of all stages,
/// before recomputation and the schedule, so that these do not change a choice, and with it the rounding.
/// `config.at` is not used.
Graph look_ahead(const Graph& graph, const PartitionConfig& config);

/// By value: whether its only reader adds it into a carried accumulator that no other op adds into. Such a
/// value may stay partial over ranks, because the accumulator can be reduced instead, once per step.
std::vector<bool> sums_that_wait(const Graph& graph);
/// By value of lifetime microbatch: how often ops after the forward phase read it.
std::vector<int> later_readers(const Graph& graph);

} // namespace trivium
