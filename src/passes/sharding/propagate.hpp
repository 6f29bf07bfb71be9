#pragma once
// Derives all shardings of a graph from a few annotations. Global graph in, sharded graph out.
#include "ir/graph.hpp"

namespace trivium {

/// Carries axes along the factors of each op, in both directions, until nothing changes (Shardy; GSPMD,
/// arXiv:2105.04663, section 3.5), in nested loops over the priorities of annotations and the levels of ops.
/// Axes that no tensor of an op contradicts come first; where tensors or factors disagree, the larger tensor
/// decides. docs/graphs.md states the order and the rules. Only open dimensions change, and only to finer
/// shardings, so propagation terminates. Afterwards every dimension is closed, and knows the op that set it
/// (DimSharding::by). Throws UserError if the annotations of a buffer's values contradict each other, or
/// sub-axes do not nest.
Graph propagate(Graph graph);

/// Propagates, and states the shardings that it found as annotations, for passes that derive gradients and
/// states from the graph's values. They are closed, except those of parameters and their casts, which ZeRO
/// shards further. Global graph in and out.
Graph complete_annotations(Graph graph);

} // namespace trivium
