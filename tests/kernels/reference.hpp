#pragma once
// Reference implementations of the kernels: plain loops in double, written independently.
#include "base/units.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace trivium::reference {

using Doubles = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

inline std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

/// [m, n] = op(a) op(b).
inline Doubles product(i64 m, i64 n, i64 k, bool transpose_a, bool transpose_b, const double* a,
                       const double* b)
{
    Doubles c(at(m * n));
    const auto rows = [&](i64 begin, i64 end) {
        for (i64 i = begin; i < end; ++i)
            for (i64 outer = 0; outer < (transpose_b ? n : k);
                 ++outer) // B's numbers in their order in memory
                for (i64 inner = 0; inner < (transpose_b ? k : n); ++inner) {
                    const i64 j = transpose_b ? outer : inner, p = transpose_b ? inner : outer;
                    c[at(i * n + j)] +=
                        a[transpose_a ? p * m + i : i * k + p] * b[outer * (transpose_b ? k : n) + inner];
                }
    };
    if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < 1e8) {
        rows(0, m);
        return c;
    }
    std::vector<std::thread> threads;
    const auto parts = static_cast<i64>(std::max(1u, std::thread::hardware_concurrency()));
    for (i64 part = 0; part < parts; ++part)
        threads.emplace_back(rows, m * part / parts, m * (part + 1) / parts);
    for (std::thread& thread : threads)
        thread.join();
    return c;
}

inline Doubles rms_norm(i64 rows, i64 dim, double eps, const Doubles& x, const Doubles& w,
                        Doubles* rstd = nullptr)
{
    Doubles y(x.size());
    for (i64 r = 0; r < rows; ++r) {
        double square = 0;
        for (i64 i = 0; i < dim; ++i)
            square += x[at(r * dim + i)] * x[at(r * dim + i)];
        const double root = std::sqrt(square / static_cast<double>(dim) + eps);
        if (rstd)
            rstd->push_back(1 / root);
        for (i64 i = 0; i < dim; ++i)
            y[at(r * dim + i)] = x[at(r * dim + i)] / root * w[at(i)];
    }
    return y;
}

inline Doubles layer_norm(i64 rows, i64 dim, double eps, const Doubles& x, const Doubles& w, const Doubles& b)
{
    Doubles y(x.size());
    const double n = static_cast<double>(dim);
    for (i64 r = 0; r < rows; ++r) {
        double mean = 0, variance = 0;
        for (i64 i = 0; i < dim; ++i)
            mean += x[at(r * dim + i)] / n;
        for (i64 i = 0; i < dim; ++i)
            variance += std::pow(x[at(r * dim + i)] - mean, 2) / n;
        for (i64 i = 0; i < dim; ++i)
            y[at(r * dim + i)] =
                (x[at(r * dim + i)] - mean) / std::sqrt(variance + eps) * w[at(i)] + b[at(i)];
    }
    return y;
}

/// The gradient with respect to x of sum(dy * rms_norm(x)), or of layer_norm(x) if `centred`.
inline Doubles norm_grad_x(i64 rows, i64 dim, double eps, bool centred, const Doubles& dy, const Doubles& x,
                           const Doubles& w)
{
    Doubles dx(x.size());
    const double n = static_cast<double>(dim);
    for (i64 r = 0; r < rows; ++r) {
        const double *xr = x.data() + r * dim, *dr = dy.data() + r * dim;
        double mean = 0, variance = 0, shift = 0, slope = 0;
        for (i64 i = 0; centred && i < dim; ++i) {
            mean += xr[i] / n;
            shift += dr[i] * w[at(i)] / n;
        }
        for (i64 i = 0; i < dim; ++i) {
            variance += std::pow(xr[i] - mean, 2) / n;
            slope += dr[i] * w[at(i)] * (xr[i] - mean) / n;
        }
        for (i64 i = 0; i < dim; ++i)
            dx[at(r * dim + i)] = (dr[i] * w[at(i)] - shift - slope * (xr[i] - mean) / (variance + eps)) /
                                  std::sqrt(variance + eps);
    }
    return dx;
}

struct RopeSizes {
    i64 rows, heads, dim, pairs;
    bool interleaved = false;
};

/// Rotates pairs (j, j + pairs) of each head, or (2j, 2j + 1), by pos * theta^(-j/pairs). Others stay.
inline Doubles rope(const RopeSizes& z, double theta, const Tokens& pos, const Doubles& x)
{
    Doubles y = x;
    for (i64 head = 0; head < z.rows * z.heads; ++head)
        for (i64 j = 0; j < z.pairs; ++j) {
            const double angle = pos[at(head / z.heads)] *
                                 std::pow(theta, -static_cast<double>(j) / static_cast<double>(z.pairs));
            const i64 a = head * z.dim + (z.interleaved ? 2 * j : j), b = a + (z.interleaved ? 1 : z.pairs);
            y[at(a)] = x[at(a)] * std::cos(angle) - x[at(b)] * std::sin(angle);
            y[at(b)] = x[at(b)] * std::cos(angle) + x[at(a)] * std::sin(angle);
        }
    return y;
}

inline double gelu(double x)
{
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

inline double swiglu(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

inline double log_sum_exp(const double* x, i64 n)
{
    double top = -INFINITY, sum = 0;
    for (i64 i = 0; i < n; ++i)
        top = std::max(top, x[i]);
    if (top == -INFINITY)
        return top;
    for (i64 i = 0; i < n; ++i)
        sum += std::exp(x[i] - top);
    return top + std::log(sum);
}

struct AttentionSizes {
    i64 batch, q_len, kv_len, kv_heads, q_per_kv, dim, start;
    double scale;
    i64 window = 0, chunk = 0;
    double cap = 0;
    Tokens starts{};   ///< [b, s], or empty
    Doubles sinks{};   ///< [g, r], or empty
    i64 value_dim = 0; ///< 0: dim

    i64 value_width() const { return value_dim > 0 ? value_dim : dim; }
    bool sees(i64 b, i64 s, i64 t) const
    {
        const i64 own = start + s, document = starts.empty() ? 0 : starts[at(b * q_len + s)];
        return t < kv_len && t <= own && t >= document && (window == 0 || own - t < window) &&
               (chunk == 0 || (t - document) / chunk == (own - document) / chunk);
    }
    double capped(double score) const { return cap > 0 ? cap * std::tanh(score / cap) : score; }
};

/// o [b, s, g, r, u] and optionally lse [b, g, r, s].
inline Doubles attention(const AttentionSizes& z, const Doubles& q, const Doubles& k, const Doubles& v,
                         Doubles* lse = nullptr)
{
    const i64 u = z.value_width();
    Doubles o(q.size() / at(z.dim) * at(u));
    if (lse)
        lse->assign(at(z.batch * z.kv_heads * z.q_per_kv * z.q_len), 0);
    for (i64 b = 0; b < z.batch; ++b)
        for (i64 s = 0; s < z.q_len; ++s)
            for (i64 g = 0; g < z.kv_heads; ++g)
                for (i64 r = 0; r < z.q_per_kv; ++r) {
                    const i64 row = ((b * z.q_len + s) * z.kv_heads + g) * z.q_per_kv + r;
                    const i64 seen = std::min(z.kv_len, z.start + s + 1);
                    Doubles score(at(seen));
                    for (i64 t = 0; t < seen; ++t) {
                        for (i64 e = 0; e < z.dim; ++e)
                            score[at(t)] += z.scale * q[at(row * z.dim + e)] *
                                            k[at(((b * z.kv_len + t) * z.kv_heads + g) * z.dim + e)];
                        score[at(t)] = z.sees(b, s, t) ? z.capped(score[at(t)]) : -INFINITY;
                    }
                    if (!z.sinks.empty())
                        score.push_back(z.sinks[at(g * z.q_per_kv + r)]);
                    const double total = log_sum_exp(score.data(), static_cast<i64>(score.size()));
                    if (lse)
                        (*lse)[at(((b * z.kv_heads + g) * z.q_per_kv + r) * z.q_len + s)] = total;
                    for (i64 t = 0; t < seen; ++t)
                        for (i64 e = 0; z.sees(b, s, t) && e < u; ++e) // the others may be NaN
                            o[at(row * u + e)] += std::exp(score[at(t)] - total) *
                                                  v[at(((b * z.kv_len + t) * z.kv_heads + g) * u + e)];
                }
    return o;
}

/// The gradients of sum(dout * attention(q, k, v)), where o is the rounded result of the forward call: in
/// bf16 its rounding error, times dout, is the largest error, and not one of the backward call.
inline void attention_grad(const AttentionSizes& z, const Doubles& dout, const Doubles& q, const Doubles& k,
                           const Doubles& v, const Doubles& o, Doubles& dq, Doubles& dk, Doubles& dv)
{
    const i64 u = z.value_width();
    Doubles lse;
    attention(z, q, k, v, &lse);
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for (i64 b = 0; b < z.batch; ++b)
        for (i64 s = 0; s < z.q_len; ++s)
            for (i64 g = 0; g < z.kv_heads; ++g)
                for (i64 r = 0; r < z.q_per_kv; ++r) {
                    const i64 query = ((b * z.q_len + s) * z.kv_heads + g) * z.q_per_kv + r;
                    const i64 row = query * z.dim, result = query * u;
                    double mean = 0; // of the probabilities' gradients, weighted by them
                    for (i64 e = 0; e < u; ++e)
                        mean += dout[at(result + e)] * o[at(result + e)];
                    for (i64 t = 0; t < std::min(z.kv_len, z.start + s + 1); ++t) {
                        if (!z.sees(b, s, t))
                            continue;
                        const i64 seen = (b * z.kv_len + t) * z.kv_heads + g, key = seen * z.dim,
                                  value = seen * u;
                        double score = 0, dp = 0;
                        for (i64 e = 0; e < z.dim; ++e)
                            score += z.scale * q[at(row + e)] * k[at(key + e)];
                        for (i64 e = 0; e < u; ++e)
                            dp += dout[at(result + e)] * v[at(value + e)];
                        const double capped = z.capped(score), ratio = z.cap > 0 ? capped / z.cap : 0;
                        const double p =
                            std::exp(capped - lse[at(((b * z.kv_heads + g) * z.q_per_kv + r) * z.q_len + s)]);
                        const double ds = p * (dp - mean) * (1 - ratio * ratio) * z.scale;
                        for (i64 e = 0; e < u; ++e)
                            dv[at(value + e)] += p * dout[at(result + e)];
                        for (i64 e = 0; e < z.dim; ++e) {
                            dq[at(row + e)] += ds * k[at(key + e)];
                            dk[at(key + e)] += ds * q[at(row + e)];
                        }
                    }
                }
}

} // namespace trivium::reference
