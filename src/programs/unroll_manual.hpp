#pragma once
// Manual regions on one rank.
#include "ir/graph.hpp"

namespace trivium {

/// The program without manual regions that computes the same, by their definition: an op in a region runs
/// once for each coordinate along the region's axes. `local` is a slice, `global` concatenates what the
/// copies computed. \pre outputs and carries are outside of regions (check_manual)
Graph unroll_manual(const Graph& graph);

} // namespace trivium
