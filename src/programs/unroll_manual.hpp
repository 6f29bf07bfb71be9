#pragma once
// Manual regions on one rank.
#include "ir/graph.hpp"

namespace trivium {

/// An equivalent program without manual regions, by their definition: an op in a region runs once for each
/// coordinate along the region's axes, `local` becomes a slice, and `global` a concatenation of the results
/// of all coordinates. \pre outputs and carries are outside of regions (check_manual())
Graph unroll_manual(const Graph& graph);

} // namespace trivium
