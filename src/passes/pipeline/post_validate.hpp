#pragma once
// Post-validated update: ranks update before they know the global norm. Local graph in, local graphs out.
#include "ir/graph.hpp"

namespace trivium {

/// The programs that replace a training graph whose update waits for the norm. They share values of lifetime
/// run.
struct PostValidated {
    /// Updates with the fed value `assumed` (f64[2], like `global_norm`), and keeps what the update reads and
    /// overwrites: the reduced gradients as `kept.G`, and the content of each parameter and state P as
    /// `before.P`. Its prologue computes the outputs of the previous step, by which the host accepts or
    /// restores that step.
    Graph train;
    Graph validate; ///< computes the outputs of the previous step alone
    Graph restore;  ///< copies `before.P` into each parameter and state P
    Graph redo;     ///< runs after `restore`: the update from `kept.G`, with another `assumed`
};

/// Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 4, with copies instead of
/// inverse updates, so that the result is exact. \pre no later pass adds collectives to `local`, and it is
/// not offloaded. Throws InternalError unless its outputs end a chain of epilogue ops with one operand each,
/// such as a reduction and the norm, that starts at this rank's totals, and the update reads one of them.
PostValidated post_validate(const Graph& local);

} // namespace trivium
