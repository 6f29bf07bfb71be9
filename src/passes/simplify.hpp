#pragma once
// Dead-code elimination. Any level in, the same level out.
#include "ir/graph.hpp"

namespace trivium {

/// Keeps the ops on which outputs, carries and communication depend, and every value that no op computes.
Graph simplify(Graph graph);

/// simplify(), also without ops whose result is their operand, such as casts that a program states for other
/// precisions. Local graph in and out.
Graph without_idle_ops(Graph graph);

/// Drops the computed values that no op of the graph computes, after a pass has removed ops.
void drop_unproduced(Graph& graph);

} // namespace trivium
