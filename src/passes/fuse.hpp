#pragma once
// Replaces two consecutive ops by one that does both. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Applies the rows of ir/fusions.hpp until none fits. The intermediate value is removed, or becomes the
/// fused op's last result if other ops read it. The two ops are consecutive, so no value is kept longer than
/// before. Ops are not fused if the fused op would store a value that no op reads. Results have the same bits
/// if the kernels give the same bits.
Graph fuse(Graph graph);

} // namespace trivium
