#pragma once
// One reduction along several axes instead of one after the other. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Reductions to all ranks of which each reads only the one before become one along their joint axis, if they
/// have the same combiner: along x and then y a rank sends 2 (|x| - 1) / |x| + 2 (|y| - 1) / |y| times the
/// tensor, jointly 2 (|x| |y| - 1) / (|x| |y|) times. Training does without, since its buckets have an axis.
Graph join_reductions(Graph graph);

} // namespace trivium
