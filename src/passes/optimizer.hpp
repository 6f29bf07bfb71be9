#pragma once
// Adds the optimizer to a differentiated graph: global norm, clipping and the update. Global graph in and
// out.
#include "ir/graph.hpp"

namespace trivium {

struct OptimizerConfig {
    double grad_clip = 1;    ///< largest global norm of the mean gradient; 0: none
    double weight_decay = 0; ///< decoupled; only for parameters that decay
    /// Mesh axis over which the moments are sharded (ZeRO stage 1, arXiv:1910.02054, section 5.1); empty:
    /// none. Parameters and reduced gradients follow by propagation.
    std::string shard_axis{};
    bool reduce_bf16 = false; ///< gradients are reduced as bf16
};

/// What the host feeds each step as `hyper` (f64[6]): learning rate, beta1, beta2, eps and the two bias
/// corrections 1 - beta^step.
inline constexpr i64 hyper_count = 6;

/// Places in the output `totals`.
inline constexpr i64 total_loss = 0, total_tokens = 1, total_squares = 2;

/// For each parameter P with a gradient: `grad_sum.P` (the gradient, reduced over ranks), states `adam_m.P`
/// and `adam_v.P`, and the update in the epilogue. The scalar outputs so far and the sum of squares of each
/// gradient become one output `totals`, so that one reduction serves them all; from it comes the output
/// `global_norm` (f64[2]: the norm of the mean gradient over tokens, and the factor that averages and clips).
/// The norm sums per-parameter f64 partial sums in the order of parameters.
/// \pre the outputs are the sum of losses and the count of tokens
/// AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2.
Graph add_optimizer(Graph graph, const OptimizerConfig& config);

/// Makes one output `totals` of the scalar outputs, in their order: the same without an optimizer.
Graph stack_outputs(Graph graph);

} // namespace trivium
