#pragma once
// Manual regions: the values between `local` and `global`, of which each rank has its own.
#include "ir/graph.hpp"

namespace trivium {

/// The attribute `sharding` of `local` or `global`. Throws UserError at the op if it is not one, or names an
/// axis that the mesh does not have, or one twice.
Sharding manual_sharding(const Graph& graph, const Op& op);

/// By value, the axes of the manual regions in which it is; empty if the graph has none. Throws UserError at
/// an op that enters a region over an axis of the region in which its operand is, or leaves one over a part
/// of it.
std::vector<std::vector<std::string>> manual_axes(const Graph& graph);

/// Throws UserError at a value in a manual region that is annotated with an axis of the region, is an output,
/// or is carried.
void check_manual(const Graph& graph);

} // namespace trivium
