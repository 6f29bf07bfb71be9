#pragma once
// Merges all-reduces along several axes into one. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// A chain of all-reduces with one combiner, in which only the next one reads the result of each, becomes one
/// all-reduce along the joint axis. Along x and then y a rank sends 2 (|x| - 1) / |x| + 2 (|y| - 1) / |y|
/// times the tensor, along x+y 2 (|x| |y| - 1) / (|x| |y|) times.
Graph join_reductions(Graph graph);

} // namespace trivium
