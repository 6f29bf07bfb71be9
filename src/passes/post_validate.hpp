#pragma once
// Post-validated update: ranks update before they know the global norm. Local graphs in and out.
#include "ir/graph.hpp"

namespace trivium {

/// What becomes of a training graph whose update waits for the norm. They share values of lifetime run.
struct PostValidated {
    /// Updates with the factor `assumed` (fed, f64[2] as the norm), and keeps for the others what the
    /// update read and overwrote: the reduced gradients `kept.G`, and of each parameter and state P the
    /// content `before.P`. Its prologue computes the outputs of the step before: the norm by which the host
    /// decides what becomes of that step.
    Graph train;
    Graph validate; ///< those outputs alone
    Graph restore;  ///< parameters and states as they were before the update
    Graph redo;     ///< the update again, with another `assumed`, on what restore() left
};

/// Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 4, with copies instead of
/// inverse updates, so that the result is exact. `local`: after all collectives are decided, and without
/// offload. Its outputs must end a chain of ops with one operand each, such as a reduction and the norm, that
/// begins where the contributions of this rank are collected; the update must read one of them.
PostValidated post_validate(const Graph& local);

} // namespace trivium
