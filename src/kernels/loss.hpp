#pragma once
// Cross-entropy over a vocabulary that may be sharded over ranks. Probabilities are never stored.
//
// A rank holds the logits of the tokens [v_offset, v_offset + vocab). It computes per row
//   lse    = log sum exp(logits)         over its shard,
//   picked = logit of the target         or 0 if another rank holds the target.
// Collectives combine the ranks (lse by log-sum-exp, picked by a sum); loss = lse - picked.
// A target < 0 is ignored: its picked is 0, its loss is 0 and so are its gradients.
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct LossShape {
    i64 rows = 0, vocab = 0;
    i64 v_offset = 0;
};

/// Logits may be -inf; if all logits of a row are, its lse is -inf.
template <class T>
void xent_stats(const Exec& exec, const LossShape& shape, const T* logits_rv, const std::int32_t* target_r,
                Acc<T>* lse_r, Acc<T>* picked_r);

/// dlogits = dlse * exp(logit - lse) + dpicked * [v is the target]. dlogits may alias logits exactly. `lse_r`
/// may be the log-sum-exp over the whole vocabulary, with `dlse_r` its gradient.
template <class T>
void xent_stats_grad(const Exec& exec, const LossShape& shape, const T* logits_rv,
                     const std::int32_t* target_r, const Acc<T>* lse_r, const Acc<T>* dlse_r,
                     const Acc<T>* dpicked_r, T* dlogits_rv);

/// loss = lse - picked; 0 for an ignored target. Real is float or double.
template <class Real>
void token_loss(const Exec& exec, i64 rows, const Real* lse_r, const Real* picked_r,
                const std::int32_t* target_r, Real* loss_r);
/// dlse = dloss and dpicked = -dloss; 0 for an ignored target.
template <class Real>
void token_loss_grad(const Exec& exec, i64 rows, const Real* dloss_r, const std::int32_t* target_r,
                     Real* dlse_r, Real* dpicked_r);

/// acc[0] (+)= sum of x in a fixed order. Real is float or double.
template <class Real>
void sum_into(const Exec& exec, i64 n, const Real* x, double* acc, bool overwrite);
/// acc[0] (+)= number of targets that are not ignored.
void count_valid(const Exec& exec, i64 n, const std::int32_t* target, double* acc, bool overwrite);

} // namespace trivium::kernels
