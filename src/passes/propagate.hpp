#pragma once
// Derives all shardings of a graph from a few annotations. Global graph in, sharded graph out.
#include "ir/graph.hpp"

namespace trivium {

/// Carries axes along the factors of each op, in both directions, until nothing changes (Shardy; GSPMD,
/// arXiv:2105.04663, section 3.5): first through ops that map every dimension to itself, then through all
/// ops. If tensors disagree on a factor, or two factors of an op could use the same axis, that op does not
/// propagate it. Only open dimensions change, and only to finer shardings, so propagation terminates.
/// Afterwards every dimension is closed.
Graph propagate(Graph graph);

/// Propagates, and leaves what it found as annotations of the given graph, for passes that derive gradients
/// and states from its values: closed, but those of parameters and their casts stay open, because ZeRO shards
/// them further. Global graph in and out.
Graph complete_annotations(Graph graph);

} // namespace trivium
