#pragma once
// Removes ops whose results are not needed. Any level in, the same level out.
#include "ir/graph.hpp"

namespace trivium {

/// Keeps everything on which outputs, carries and other ranks depend, and every value that no op computes.
Graph simplify(Graph graph);

/// Drops the computed values that no op makes any more, after a pass has taken ops out.
void drop_unproduced(Graph& graph);

} // namespace trivium
