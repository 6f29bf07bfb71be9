#pragma once
// Random programs of general ops with random annotations, forward and backward.
#include "ir/graph.hpp"

namespace trivium {

struct RandomConfig {
    Mesh mesh;
    int least_ops = 5, most_ops = 30;       ///< of the forward pass, but for those of the loss
    bool backward = true;                   ///< also the gradients of parameters, as outputs
    bool regions = false;                   ///< also manual regions, which have no gradient
    int annotated = 3;                      ///< one in so many values
    i64 least_extent = 2, most_extent = 12; ///< of the dimensions of the first tensors
    i64 most_elements = 4096;               ///< of a tensor that further ops read
    bool loss = true; ///< a sum over all results; without it there is nothing to differentiate
};

/// The program of this seed.
Graph random_program(std::uint64_t seed, const RandomConfig& config);
/// Mesh and kind of program by the seed: a quarter has no gradients, but manual regions.
RandomConfig random_config(std::uint64_t seed);

} // namespace trivium
