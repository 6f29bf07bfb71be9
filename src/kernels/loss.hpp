#pragma once
// Cross-entropy over a vocabulary that may be sharded over ranks. Probabilities are never stored.
//
// A rank holds the logits of the tokens [v_offset, v_offset + vocab). It computes per row
//   lse    = log sum exp(logits)         over its shard,
//   picked = logit of the target         or 0 if another rank holds the target.
// Collectives combine the ranks (lse by log-sum-exp, picked by a sum); loss = lse - picked.
// A target < 0 is ignored: its picked is 0, its loss is 0 and so are its gradients.
//
// Label smoothing (Szegedy et al. 2016, arXiv:1512.00567, section 7): the target's distribution q has the
// share epsilon spread over the whole vocabulary. picked is then sum_v q_v logit_v, of which a rank has its
// part.
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct LossShape {
    i64 rows = 0, vocab = 0;
    i64 v_offset = 0;
    double target_share = 1, every_share = 0; ///< q = every_share, plus target_share at the target
};

/// Logits may be -inf; if all logits of a row are, its lse is -inf.
template <class T>
void xent_stats(const Exec& exec, const LossShape& shape, const T* logits_rv, const std::int32_t* target_r,
                Acc<T>* lse_r, Acc<T>* picked_r);

/// dlogits = dlse * exp(logit - lse) + dpicked * q. dlogits may alias logits exactly. `lse_r`
/// may be the log-sum-exp over the whole vocabulary, with `dlse_r` its gradient.
template <class T>
void xent_stats_grad(const Exec& exec, const LossShape& shape, const T* logits_rv,
                     const std::int32_t* target_r, const Acc<T>* lse_r, const Acc<T>* dlse_r,
                     const Acc<T>* dpicked_r, T* dlogits_rv);

/// loss = lse - picked + z lse^2; 0 for an ignored target. `z` keeps the logits near 0 (z-loss: PaLM,
/// arXiv:2204.02311, section 5). Real is float or double.
template <class Real>
void token_loss(const Exec& exec, i64 rows, double z, const Real* lse_r, const Real* picked_r,
                const std::int32_t* target_r, Real* loss_r);
/// dlse = dloss (1 + 2 z lse) and dpicked = -dloss; 0 for an ignored target. `lse_r` may be null if z is 0.
template <class Real>
void token_loss_grad(const Exec& exec, i64 rows, double z, const Real* dloss_r, const std::int32_t* target_r,
                     const Real* lse_r, Real* dlse_r, Real* dpicked_r);

/// acc[0] (+)= sum of x in a fixed order. Real is float or double.
template <class Real>
void sum_into(const Exec& exec, i64 n, const Real* x, double* acc, bool overwrite);
/// acc[0] (+)= number of targets that are not ignored.
void count_valid(const Exec& exec, i64 n, const std::int32_t* target, double* acc, bool overwrite);

} // namespace trivium::kernels
