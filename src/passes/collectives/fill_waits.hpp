#pragma once
// Gradients of weights are computed while the backward pass waits for a collective. Local graph in and out.
#include "ir/graph.hpp"

#include <functional>
#include <vector>

namespace trivium {

/// By op: the duration of an op that computes; of a transfer, how long the rank may compute meanwhile.
using OverlapSeconds = std::function<std::vector<Seconds>(const Graph&)>;

/// Behind each collective of a backward pass that computing waits for go the ops since the collective before
/// it on which no other communication of the pass depends, the last ones first, until they take as long as
/// the collective. The order of collectives stays the same, and so do all sums.
Graph fill_waits(Graph graph, const OverlapSeconds& seconds);

} // namespace trivium
