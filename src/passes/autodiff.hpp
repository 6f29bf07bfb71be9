#pragma once
// Reverse-mode differentiation of the microbatch region. Global graph in and out.
#include "ir/graph.hpp"
#include "ir/names.hpp"

namespace trivium {

struct AutodiffConfig {
    std::string loss = value_name::loss; ///< name of the value whose sum is differentiated
    /// Mesh axis over which each microbatch reduce-scatters its gradients (ZeRO stage 2, arXiv:1910.02054,
    /// section 5.2); empty: microbatches accumulate partial gradients, which are reduced once per step.
    std::string reduce_axis{};
    /// Axes that shard samples. A gradient that is kept sharded over one of them is summed in each
    /// microbatch, too, because what a product adds is partial over it.
    std::vector<std::string> batch_axes{};
    bool reduce_bf16 = false;     ///< over `reduce_axis`, as bf16
    bool accumulate_bf16 = false; ///< the accumulators are bf16, otherwise the accumulator type
};

/// Appends the backward ops. For each parameter P on which the loss depends, each block that reads P has a
/// carry that accumulates P's gradient (of the loss summed over tokens and microbatches), in the accumulator
/// type of P's compute type or in bf16. `grad.P` is the content of that carry, or the sum over several
/// blocks. Throws UserError if the graph does not have the loss, or the loss depends on a parameter through
/// an op without gradient.
Graph autodiff(Graph graph, const AutodiffConfig& config);

} // namespace trivium
