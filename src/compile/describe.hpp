#pragma once
// Short descriptions of models, grids and stages.
#include "config/run_config.hpp"

namespace trivium {

/// "5.2 M parameters: llama, 4 layers, dim 256, 8 heads (4 key-value), vocab 4096, seq 256, bf16"
std::string describe_model(const RunConfig& config);

/// "data 2 x pipeline 2 x tensor 2, 1f1b, zero 1, sequence parallel"
std::string describe_grid(const ParallelConfig& config);

/// "parameters gathered every pass, gradients reduced every microbatch, recompute full" of chosen settings
/// (choose/memory_policy.hpp): those that have an effect and are not the usual ones of a run without them;
/// may be empty.
std::string describe_choices(const ParallelConfig& config);

/// "embedding, layers 0-3". `rank_of_block`: 0 the embedding, then the layers, then the head.
std::string blocks_of_rank(const std::vector<int>& rank_of_block, i64 rank);

} // namespace trivium
