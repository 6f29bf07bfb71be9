#pragma once
// Lower bounds of what a rank holds, without compiling.
#include "config/run_config.hpp"

#include <vector>

namespace trivium {

/// By stage: a lower bound of the arena: parameters, optimizer states, gradients, and the activations of the
/// microbatches in flight. \pre resolved and validated
std::vector<Bytes> least_bytes_of_stages(const RunConfig& config);
/// A lower bound of the largest of them, for any distribution of the layers over the stages.
Bytes least_bytes_of_largest(const RunConfig& config);

} // namespace trivium
