#pragma once
// Attention over keys and values of other ranks, block by block. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Replaces gathers of what an op reads along a factor (OpInfo::blocks) by steps: the first computes with the
/// rank's own block, step i of the others with that of the rank i before it in the group, which an exchange
/// brings meanwhile (schedule/place.hpp). Only the parts of blocks that are read are sent; a step in which no
/// rank of the group reads anything is left out. Results along the factor, which ranks otherwise
/// reduce-scatter, are sent to the owners of their blocks, in the type in which the reduction sends them, and
/// added there in their accumulator type. All ranks exchange in the same order.
Graph ring(Graph graph);

} // namespace trivium
