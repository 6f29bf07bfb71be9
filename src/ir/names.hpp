#pragma once
// The names of values by which the rooms find them: who makes a value and who looks for it both write these.
#include <array>
#include <string>

namespace trivium::value_name {

// Fed by the host for each microbatch.
inline constexpr const char *tokens = "tokens", *targets = "targets", *positions = "positions";
// Fed by the host for each step: the optimizer's numbers; of a decode graph the tokens in the cache and the
// row whose logits are wanted.
inline constexpr const char *hyper = "hyper", *start = "start", *last = "last";

/// The loss per token, and of a decode graph the logits.
inline constexpr const char *loss = "loss", *logits = "logits";
/// Outputs before the optimizer; afterwards they are in `totals` (passes/optimizer.hpp has the places).
inline constexpr const char *loss_sum = "loss_sum", *token_count = "token_count";
/// Outputs of a step: what one reduction adds over all ranks, and f64[2], norm and clipping factor.
inline constexpr const char *totals = "totals", *norm = "global_norm";

/// Prefixes of a parameter's name: its gradient, the same reduced over ranks, and its moments.
inline constexpr const char *gradient = "grad.", *reduced_gradient = "grad_sum.";
inline constexpr std::array<const char*, 2> moments{"adam_m.", "adam_v."};

} // namespace trivium::value_name
