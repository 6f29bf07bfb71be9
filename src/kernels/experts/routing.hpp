#pragma once
// The router of a mixture of experts: which experts a token goes to, and what its losses read. R is double or
// float. Suffixes: t token, x expert, k slot, b sequence, s its token.
#include "base/expert_rows.hpp"
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct RouteShape {
    i64 tokens = 0, experts = 0, slots = 0;
    Routing routing{};
    double scale = 1; ///< of the weights
};

/// The experts with the largest score + bias, by that value, then by index, and their weights: scores times
/// `scale`, with a sum of 1 before that if `normalised`. bias_x may be null. NaN counts as the largest value,
/// so that it reaches the loss. \pre slots <= experts of the chosen groups; at most 64 groups
template <class R>
void route(const Exec& exec, const RouteShape& shape, const R* logits_tx, const R* bias_x, R* weights_tk,
           std::int32_t* experts_tk);
/// dlogits_tx may be logits_tx.
template <class R>
void route_grad(const Exec& exec, const RouteShape& shape, const R* dweights_tk, const R* logits_tx,
                const std::int32_t* experts_tk, R* dlogits_tx);

/// counts_gx (+)= how many of the `slots` slots of each of `groups` groups name the expert.
template <class N>
void expert_counts(const Exec& exec, i64 groups, i64 slots, i64 experts, const std::int32_t* experts_gk,
                   N* counts_gx, bool overwrite);

struct RouterShape {
    i64 sequences = 0, tokens = 0, experts = 0; ///< tokens: of a sequence
    bool sigmoid = false;                       ///< scores; otherwise softmax
};

/// scores_bx = the sum over tokens of score / (sum of the token's scores). Scratch: an R per token.
template <class R>
void router_scores(const Exec& exec, const RouterShape& shape, const R* logits_bsx, R* scores_bx,
                   Scratch scratch);
/// dlogits_bsx may be logits_bsx.
template <class R>
void router_scores_grad(const Exec& exec, const RouterShape& shape, const R* dscores_bx, const R* logits_bsx,
                        R* dlogits_bsx);

/// squares_b = the sum over tokens of the squared log-sum-exp of the logits. Scratch: an R per token.
template <class R>
void router_squares(const Exec& exec, const RouterShape& shape, const R* logits_bsx, R* squares_b,
                    Scratch scratch);
/// dlogits_bsx may be logits_bsx.
template <class R>
void router_squares_grad(const Exec& exec, const RouterShape& shape, const R* dsquares_b, const R* logits_bsx,
                         R* dlogits_bsx);

} // namespace trivium::kernels
