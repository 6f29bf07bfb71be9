#pragma once
// Puts two ops that stand one behind the other into one that does both. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Goes by the rows of ir/fusions.hpp, until none fits. What went through is gone afterwards, or is the fused
/// op's last result where others read it. Nothing stands between the two, so that no value lives longer than
/// before; two are left as they are where the fused op would store what nobody reads. The numbers are the
/// same bits where the kernels' are.
Graph fuse(Graph graph);

} // namespace trivium
