#pragma once
// Replaces two consecutive ops by one that does both. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Applies the rows of ir/ops/fusions.hpp to consecutive ops of one region, phase and stage. An op that fits
/// both neighbours is fused with the next one. The intermediate value is removed, or becomes the fused op's
/// last result if other ops read it. Ops are not fused if the fused op would need memory for a value that no
/// op reads. No value is kept longer than before. Results have the same bits if the kernels give the same
/// bits.
Graph fuse(Graph graph);

} // namespace trivium
