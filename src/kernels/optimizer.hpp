#pragma once
// Gradient norm, AdamW (Loshchilov & Hutter 2019, decoupled weight decay) and the element-wise operations of
// Muon. Real is float or double; gradients are of that type or bf16. One call of sum_squares or adamw
// processes many parameters; on a device, up to 64 (sum_squares) or 48 (adamw) share a launch.
#include "kernels/exec.hpp"

#include <span>

namespace trivium::kernels {

/// n numbers x, and the destination of the sum of their squares.
template <class T>
struct SquaresOf {
    const T* x = nullptr;
    i64 n = 0;
    double* out = nullptr;
    const T* before = nullptr; ///< if it is given, of x - before
};

/// Bytes of scratch of sum_squares for an array of n numbers; a call needs the sum over its arrays.
Bytes sum_squares_scratch(i64 n);

/// For each array: out[0] = sum of x^2, in double, over fixed blocks of 16384 numbers. The order of additions
/// does not depend on the other arrays of the call. \throws InternalError if the scratch is too small
template <class T>
void sum_squares(const Exec& exec, std::span<const SquaresOf<T>> arrays, Scratch scratch);

/// From the sums of squares of all parameters, in global parameter order, and the number of tokens (a double
/// in memory, because gradients are sums over tokens): out[0] = norm of the mean gradient = sqrt(sum) /
/// tokens, out[1] = factor for a summed gradient = min(1, clip / norm) / tokens. clip <= 0 never clips.
void global_norm(const Exec& exec, i64 count, const double* squares, const double* token_count, double clip,
                 double* out);

/// Indices of the values that AdamW reads from memory, so that a step changes values but not the call. The
/// corrections are 1 - beta^step, step counted from 1.
struct AdamwHyper {
    enum : int { lr, beta1, beta2, eps, correction1, correction2, count };
};

/// One parameter shard of n numbers: parameter p, moments m and v are updated, gradient g is read.
template <class Real, class Gradient = Real>
struct AdamwShard {
    Real *p = nullptr, *m = nullptr, *v = nullptr;
    const Gradient* g = nullptr;
    i64 n = 0;
    double weight_decay = 0;
    double rate = 1, eps = 1; ///< factors of lr and of eps
};

/// For each shard, with G = factor[0] * g, and lr and eps times their factors: m = beta1 m + (1-beta1) G, v =
/// beta2 v + (1-beta2) G^2, p -= lr * (m/correction1 / (sqrt(v/correction2) + eps) + weight_decay * p).
template <class Real, class Gradient>
void adamw(const Exec& exec, std::span<const AdamwShard<Real, Gradient>> shards, const double* hyper,
           const double* factor);

// Muon (K. Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"). An output may be
// an input of the same type.

/// Nesterov momentum, with G = factor[0] * g: m = momentum m + G, u = G + momentum m (the new m).
template <class Real, class Gradient>
void nesterov(const Exec& exec, i64 n, double momentum, const double* factor, const Gradient* g, Real* m,
              Real* u);

/// Of each of `count` arrays of n numbers, one after the other: y = x / sqrt(squares[array]); zeros if that
/// is 0.
template <class Real>
void unit_norm(const Exec& exec, i64 count, i64 n, const double* squares, const Real* x, Real* y);

/// z = alpha x + beta y.
template <class Real>
void weighted_sum(const Exec& exec, i64 n, double alpha, const Real* x, double beta, const Real* y, Real* z);

/// p -= lr * (weight_decay * p + scale * x), with lr = hyper[AdamwHyper::lr].
template <class Real>
void descent(const Exec& exec, i64 n, const double* hyper, double weight_decay, double scale, const Real* x,
             Real* p);

/// p = decay p + (1 - decay) sum / count[0].
template <class Real>
void moving_average(const Exec& exec, i64 n, double decay, const double* count, const Real* sum, Real* p);

/// p += rate sign(mean(counts) - counts), for n elements.
template <class Real>
void balance(const Exec& exec, i64 n, double rate, const Real* counts, Real* p);

/// A scalar in memory, and its index in a vector.
struct StackPart {
    i64 at = 0;
    const double* x = nullptr;
};

/// y[at] = *x for each part, 0 elsewhere. \pre 0 <= at < n
void stack(const Exec& exec, i64 n, std::span<const StackPart> parts, double* y);

} // namespace trivium::kernels
