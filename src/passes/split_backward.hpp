#pragma once
// Divides the backward pass into two halves. Global graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Moves the gradients of weights to the end of each microbatch, into phase `weights`: all of the backward
/// pass on which no other block's backward pass depends (Qi et al. 2023, arXiv:2401.10241, section 2).
Graph split_backward(Graph graph);

} // namespace trivium
