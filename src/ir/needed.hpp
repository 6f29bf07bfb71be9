#pragma once
// What the results of a graph depend on.
#include "ir/graph.hpp"

namespace trivium {

/// Without the ops and the computed values on which no output, carry or collective depends, and without those
/// of `given`, values that no op computes.
Graph only_needed(Graph graph, const std::vector<ValueId>& given = {});

} // namespace trivium
