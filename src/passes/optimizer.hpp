#pragma once
// Adds the optimizer to a differentiated graph: global norm, clipping and the update. Global graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct OptimizerConfig {
    double grad_clip = 1;    ///< largest global norm of the mean gradient; 0: none
    double weight_decay = 0; ///< decoupled; only for parameters that decay
};

/// What the host feeds each step as `hyper` (f64[6]): learning rate, beta1, beta2, eps and the two bias corrections
/// 1 - beta^step.
inline constexpr i64 hyper_count = 6;

/// For each parameter P with a gradient: states `adam_m.P` and `adam_v.P`, the update in the epilogue, and one
/// output `global_norm` (f64[2]: the norm of the mean gradient over tokens, and the factor that averages and clips).
/// The norm sums per-parameter f64 partial sums in the order of parameters.
/// AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2.
Graph add_optimizer(Graph graph, const OptimizerConfig& config);

} // namespace trivium
