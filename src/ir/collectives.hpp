#pragma once
// Collectives of a local graph that passes and schedules may merge and move: no tensor of a microbatch's
// compute depends on where between their operands and their readers they run.
#include "ir/op_table.hpp"

namespace trivium {

/// The axes along which its ops communicate that are no axes of the mesh but joint ones ("x+y"), or parts of
/// axes; sorted. Grid::open() makes their communicators.
std::vector<std::string> joint_axes(const Graph& graph);

/// Whether the op combines a tensor over its axis and leaves all of it on each rank.
bool reduces_to_all(const Op& op);

/// Whether the op collects, in a microbatch, what outlives the microbatch: a sharded parameter. Nothing but
/// the order of the ops says when it begins.
bool gathers_parameters(const Graph& graph, const Op& op);

/// The reduction in this microbatch whose result the op adds to an accumulator; invalid if there is none.
OpId reduction_added_by(const Graph& graph, const Op& op);

/// By op: whether it is such a reduction.
std::vector<bool> gradient_reductions(const Graph& graph);

} // namespace trivium
