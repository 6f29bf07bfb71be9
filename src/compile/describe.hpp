#pragma once
// Short descriptions of models, grids and stages.
#include "config/run_config.hpp"

namespace trivium {

/// "5.2 M parameters"; with experts "47 B parameters (13 B per token)"; with frozen ones "…, 1.2 M trained".
std::string describe_size(const RunConfig& config);
/// ", 8 experts of width 14336, 2 per token"; "" without experts.
std::string describe_experts(const ModelConfig& model);
/// "5.2 M parameters: llama, 4 layers, dim 256, 8 heads (4 key-value), vocab 4096, seq 256, bf16"
std::string describe_model(const RunConfig& config);

/// "data 2 x pipeline 2 x tensor 2, 1f1b, zero 1, sequence parallel"
std::string describe_grid(const ParallelConfig& config);

/// "parameters gathered every pass, gradients reduced every microbatch, buckets by block, recompute full":
/// those of the decided settings (choose/decide.hpp) that have an effect on this grid; may be empty.
std::string describe_choices(const ParallelConfig& config);

/// "embedding, layers 0-3", or "blocks 0-4" of a program: the blocks of pipeline rank `rank`.
/// `rank_of_block`: Compiled::rank_of_block.
std::string blocks_of_rank(const ModelConfig& model, const std::vector<int>& rank_of_block, i64 rank);

} // namespace trivium
