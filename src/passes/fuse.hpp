#pragma once
// Replaces two consecutive ops by one that does both. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Applies the rows of ir/fusions.hpp until none fits. The value between the two is removed, or becomes the
/// fused op's last result where other ops read it. The two are consecutive, so no value is kept longer than
/// before; they stay where the fused op would store a value that no op reads. Results are the same bits where
/// the kernels' are.
Graph fuse(Graph graph);

} // namespace trivium
