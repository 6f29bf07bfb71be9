#pragma once
// Derives all shardings of a graph from a few annotations. Global graph in, sharded graph out.
#include "ir/graph.hpp"

namespace trivium {

/// Carries axes along the factors of each op, in both directions, until nothing changes (Shardy; GSPMD,
/// arXiv:2105.04663, section 3.5), in nested loops: user priorities; levels of ops; first what no tensor of
/// an op contradicts, then, where tensors or factors disagree, what the larger tensor has. docs/graphs.md
/// states the order and the rules. Only open dimensions change, and only to finer shardings, so propagation
/// terminates. Afterwards every dimension is closed, and knows the op that set it.
Graph propagate(Graph graph);

/// Propagates, and leaves what it found as annotations of the given graph, for passes that derive gradients
/// and states from its values: closed, but those of parameters and their casts stay open, because ZeRO shards
/// them further. Global graph in and out.
Graph complete_annotations(Graph graph);

} // namespace trivium
