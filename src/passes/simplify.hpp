#pragma once
// Removes ops whose results are not needed. Any level in, the same level out.
#include "ir/graph.hpp"

namespace trivium {

/// Keeps everything on which outputs, carries and other ranks depend, and every value that no op computes.
Graph simplify(Graph graph);

} // namespace trivium
