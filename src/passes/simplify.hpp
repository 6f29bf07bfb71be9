#pragma once
// Removes ops whose results nothing needs. Any level in, the same level out.
#include "ir/graph.hpp"

namespace trivium {

/// Keeps what the outputs, the carries and other ranks depend on, and every value that is given.
Graph simplify(Graph graph);

} // namespace trivium
