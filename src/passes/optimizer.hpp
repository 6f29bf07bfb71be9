#pragma once
// Adds the optimizer to a differentiated graph: global norm, clipping and the update. Global graph in and
// out.
#include "config/run_config.hpp"
#include "ir/graph.hpp"

namespace trivium {

struct OptimizerConfig {
    double grad_clip = 1;    ///< maximum global norm of the mean gradient; 0: no clipping
    double weight_decay = 0; ///< decoupled; only for parameters with Value::decay
    /// Mesh axis over which the optimizer's states are sharded (ZeRO stage 1, arXiv:1910.02054, section 5.1);
    /// empty: not sharded. Parameters and reduced gradients follow by propagation.
    std::string shard_axis{};
    std::vector<std::string> bf16_axes{}; ///< mesh axes over which gradients are reduced as bf16
    /// Frozen parameters are sharded over shard_axis as if they had states. Without it each rank has them
    /// whole, because a shard would be gathered in each step and never change.
    bool shard_frozen = false;
    OptimizerKind kind{};
    double momentum = 0.95; ///< of Muon
    double average = 0;     ///< decay of the moving average of each trained parameter; 0: none
};

/// The host feeds `hyper` (f64[6]) at each step: learning rate, beta1, beta2, eps and the two bias
/// corrections 1 - beta^step.
inline constexpr i64 hyper_count = 6;

/// Positions in the output `totals`.
inline constexpr i64 total_loss = 0, total_tokens = 1, total_squares = 2;

/// Parameters that are trained (is_trained): adds, for each parameter P with a gradient, `grad_sum.P` (the
/// gradient, reduced over ranks), the states of its optimizer (OpInfo::states) and the update in the epilogue
/// (AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv:1711.05101, algorithm 2).
/// The existing scalar outputs and the sum of squares of each gradient become one output `totals`, so that a
/// single reduction suffices. The output `global_norm` is computed from it (f64[2]: the norm of the mean
/// gradient over tokens, and the factor that averages and clips). The norm sums per-parameter f64 partial
/// sums in the order of parameters. \pre the outputs are the sum of losses, the count of tokens, and perhaps
/// other scalars, which are then the last in `totals`
///
/// With Muon, weight matrices of layers (Value::rows) have the state `muon_m.P` instead, and this update:
/// the momentum and its Nesterov direction u; X = u / |u| (Frobenius); five Newton-Schulz iterations
/// X = a X + (b A + c A A) X, A = X X', which bring the singular values near 1 (K. Jordan et al. 2024, "Muon:
/// an optimizer for hidden layers in neural networks"); p -= lr (weight_decay p + 0.2 sqrt(max(rows,
/// columns)) X), a step as large as AdamW's, so that both share learning rate and decay (J. Liu et al. 2025,
/// "Muon is scalable for LLM training", arXiv:2502.16982, section 2.2). A rank gathers u over `shard_axis`;
/// the other axes shard the iterations as they shard the parameter. Each matrix of a stack (Value::stack) is
/// updated by itself, by the ranks along `shard_axis` that have it.
///
/// With an average, each trained parameter has one more state (is_average), sharded as the optimizer's: the
/// moving average of its content after the steps that update it.
///
/// The other parameters are changed as ParameterUpdate says, from `grad_sum.P` too: the sum over microbatches
/// and ranks of what `grad.P` accumulates. They wait for the norm, so that a step without update leaves them
/// alone, but do not count in it.
Graph add_optimizer(Graph graph, const OptimizerConfig& config);

/// With Muon and a `shard_axis`: closes the rows and columns of stacks that have a matrix for each rank along
/// it, so that ZeRO shards them by whole matrices, which no rank gathers. Before autodiff().
Graph keep_matrices_whole(Graph graph, const OptimizerConfig& config);

/// The program `evaluation`, called `name`, with the averages that the program `train` has of parameters in
/// place of these.
Graph with_averages(Graph evaluation, const Graph& train, const std::string& name);

/// Without an optimizer: replaces the scalar outputs by one output `totals`, in their order, before the
/// others.
Graph stack_outputs(Graph graph);

} // namespace trivium
