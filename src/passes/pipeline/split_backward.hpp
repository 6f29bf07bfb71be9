#pragma once
// Divides the backward pass into gradients of activations and of weights. Global or sharded graph in, the
// same level out.
#include "ir/graph.hpp"

namespace trivium {

/// Moves the gradients of weights to the end of each microbatch, into the phase `weights`: the ops of the
/// backward pass on which no other block's backward pass depends (Qi et al. 2023, arXiv:2401.10241, section
/// 2).
Graph split_backward(Graph graph);

} // namespace trivium
