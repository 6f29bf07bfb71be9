#pragma once
// What a case trains, from the reference of the whole weights.
#include "grid/grid_run.hpp"

namespace trivium::grids {

/// Loss and gradients of the first batch of `c` on one rank by the plain reference that has its options:
/// `parameters` with the adapters in the weights, and what follows for A, B and magnitudes from the gradients
/// of these. Gradients are of what is trained. \pre no adapter has dropout, nor a tied embedding
reference::Result reference_of(const Case& c, const reference::Tensors& parameters);

} // namespace trivium::grids
