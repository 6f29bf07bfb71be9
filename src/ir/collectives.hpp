#pragma once
// Collectives of a local graph that passes and schedules may merge, and move between the ops that compute
// their operands and the ops that read their results.
#include "ir/ops/op_table.hpp"

namespace trivium {

/// The joint axes ("x+y") and sub-axes ("x:(2)4") along which ops of the graph communicate, sorted, without
/// world_axis. Grid::open() makes their communicators.
std::vector<std::string> joint_axes(const Graph& graph);

/// Whether the op is an all-reduce.
bool reduces_to_all(const Op& op);

/// Whether the op is a collective of a microbatch whose operands all outlive the microbatch: it gathers a
/// sharded parameter. It depends on no op of the microbatch, so only the order of the ops determines when it
/// starts.
bool gathers_parameters(const Graph& graph, const Op& op);

/// The reduction in this microbatch whose result the op adds to an accumulator; invalid if there is none.
OpId reduction_added_by(const Graph& graph, const Op& op);

/// By op: whether it is reduction_added_by() of some op.
std::vector<bool> gradient_reductions(const Graph& graph);

} // namespace trivium
