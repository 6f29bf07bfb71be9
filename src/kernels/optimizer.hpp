#pragma once
// Gradient norm and AdamW (Loshchilov & Hutter 2019, decoupled weight decay). Real is float or double.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// Scratch for sum_squares of n numbers.
Bytes sum_squares_scratch(i64 n);

/// out[0] = sum of x^2, in double, over fixed blocks of 16384 that are then added in order.
template <class Real>
void sum_squares(const Exec& exec, i64 n, const Real* x, double* out, Scratch scratch);

/// From the sums of squares of all parameters, in global parameter order, and the number of tokens (a double in
/// memory, as gradients are sums over tokens): out[0] = norm of the mean gradient = sqrt(sum) / tokens,
/// out[1] = what to multiply a summed gradient with = min(1, clip / norm) / tokens. clip <= 0 never clips.
void global_norm(const Exec& exec, i64 count, const double* squares, const double* token_count, double clip,
                 double* out);

struct AdamwStep {
    double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
    double correction1 = 1, correction2 = 1; ///< 1 - beta^step, step counted from 1
};

/// The arrays of one parameter shard: parameter p, moments m and v are updated, gradient g is read.
template <class Real>
struct AdamwState {
    Real *p, *m, *v;
    const Real* g;
};

/// With G = factor[0] * g: m = beta1 m + (1-beta1) G, v = beta2 v + (1-beta2) G^2,
/// p -= lr * (m/correction1 / (sqrt(v/correction2) + eps) + weight_decay * p).
template <class Real>
void adamw(const Exec& exec, i64 n, const AdamwStep& step, const AdamwState<Real>& state, const double* factor);

} // namespace trivium::kernels
