#pragma once
// Manual regions (Shardy's manual computation, JAX's shard_map): between `local` and `global`, each rank
// along the manual axes has values of its own.
#include "ir/graph.hpp"

namespace trivium {

/// The attribute `sharding` of `local` or `global`. Throws UserError at the op if it is not a sharding, has a
/// bar, or names an axis twice or one that the mesh does not have.
Sharding manual_sharding(const Graph& graph, const Op& op);

/// By value, the axes of the manual regions that contain it; empty if the graph has none. Throws UserError at
/// an op that enters a region over an axis that is manual already, or that leaves a region over another
/// sub-axis than the op that entered it.
std::vector<std::vector<std::string>> manual_axes(const Graph& graph);

/// Throws UserError at a value in a manual region that is annotated with a manual axis, is an output, or is
/// carried.
void check_manual(const Graph& graph);

} // namespace trivium
