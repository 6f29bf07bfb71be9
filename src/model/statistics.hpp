#pragma once
// Running statistics of a program: parameters with the update `average`, and the ops running_statistic.
#include "ir/graph.hpp"

namespace trivium {

/// Each parameter with the update `average` is kept by exactly one op running_statistic, and each such op
/// keeps one. Throws UserError.
void require_statistics(const Graph& graph);

/// Makes each op running_statistic a copy of what a training reads, or with `evaluates` of the parameter, in
/// its block. In a training the sums of what the parameters keep are the carries `grad.PARAMETER`, of type
/// `master`.
Graph resolve_statistics(Graph graph, bool evaluates, DType master);

} // namespace trivium
