#pragma once
// Completes the shardings of a graph from the few that are annotated. Global graph in, sharded graph out.
#include "ir/graph.hpp"

namespace trivium {

/// Carries axes along the factors of each op, in both directions, until nothing changes (Shardy; GSPMD,
/// arXiv:2105.04663, section 3.5): first through ops that take every dimension to itself, then through all.
/// Where tensors disagree on a factor, or two factors of an op want one axis, that op does not carry it.
/// Only open dimensions change, and only to finer shardings, so it ends. Afterwards every dimension is
/// closed.
Graph propagate(Graph graph);

} // namespace trivium
