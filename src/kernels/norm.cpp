#include "kernels/norm.hpp"

#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

namespace {

// How the weight multiplies x rstd: x rstd w, x rstd (w + offset), or the latter with x rstd rounded. `gain`
// is the factor in gradients. Apart, so that the first has no further operation.
template <class T>
struct Weight {
    using A = Acc<T>;
    KOKKOS_FUNCTION A operator()(A v, A rstd, A by) const { return v * rstd * by; }
    KOKKOS_FUNCTION A gain(A by) const { return by; }
};
template <class T>
struct OffsetWeight {
    using A = Acc<T>;
    A offset;
    KOKKOS_FUNCTION A operator()(A v, A rstd, A by) const { return v * rstd * (by + offset); }
    KOKKOS_FUNCTION A gain(A by) const { return by + offset; }
};
template <class T>
struct RoundedWeight {
    using A = Acc<T>;
    A offset;
    KOKKOS_FUNCTION A operator()(A v, A rstd, A by) const { return A(T(v * rstd)) * (by + offset); }
};

/// f(weight) with one that has the gain of the shape's.
template <class T, class F>
void with_gain(const NormShape& shape, F f)
{
    if (shape.offset != 0)
        f(OffsetWeight<T>{static_cast<Acc<T>>(shape.offset)});
    else
        f(Weight<T>{});
}
/// f(weight) with that of the shape.
template <class T, class F>
void with_weight(const NormShape& shape, F f)
{
    if (shape.rounded)
        f(RoundedWeight<T>{static_cast<Acc<T>>(shape.offset)});
    else
        with_gain<T>(shape, f);
}

template <class T, class W>
KOKKOS_FUNCTION void rms_norm_row(const Kept<T, 1>& x, Acc<T> eps, const W& weight, const T* w, T* y,
                                  Acc<T>* to_rstd)
{
    using A = Acc<T>;
    const A square = x.sum([](A v) { return v * v; });
    const A rstd = A(1) / square_root(square * (A(1) / static_cast<A>(x.n)) + eps);
    x.row.single([=] { *to_rstd = rstd; });
    x.map([=](A v, A by) { return weight(v, rstd, by); }, y, w);
}

template <class T>
KOKKOS_FUNCTION void layer_norm_row(const Kept<T, 1>& x, Acc<T> eps, const T* w, const T* b, T* y,
                                    Acc<T>* to_mean, Acc<T>* to_rstd)
{
    using A = Acc<T>;
    const A inverse = A(1) / static_cast<A>(x.n);
    const A mean = inverse * x.sum([](A v) { return v; });
    const A square = x.sum([=](A v) { return (v - mean) * (v - mean); });
    const A rstd = A(1) / square_root(square * inverse + eps);
    x.row.single([=] {
        *to_mean = mean;
        *to_rstd = rstd;
    });
    if (b)
        x.map([=](A v, A by, A plus) { return (v - mean) * rstd * by + plus; }, y, w, b);
    else
        x.map([=](A v, A by) { return (v - mean) * rstd * by; }, y, w);
}

// Functions for each weight: a lambda for a device may not be in a generic lambda.

template <class T, class W>
void rms_norm_with(const Exec& exec, const NormShape& shape, const W& weight, const T* x_rd, const T* w_d,
                   T* y_rd, Acc<T>* rstd_r)
{
    const i64 dim = shape.dim;
    const auto eps = static_cast<Acc<T>>(shape.eps);
    for_rows<T>(
        exec, "rms_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            rms_norm_row(row.keep(dim, x_rd + r * dim), eps, weight, w_d, y_rd + r * dim, rstd_r + r);
        });
}

template <class T, class W>
void add_rms_norm_with(const Exec& exec, const NormShape& shape, const W& weight, const T* x_rd,
                       const T* r_rd, const T* w_d, T* y_rd, T* n_rd, Acc<T>* rstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const auto eps = static_cast<A>(shape.eps);
    for_rows<T>(
        exec, "add_rms_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const auto y = row.keep_map(
                dim, [](A a, A b) { return a + b; }, y_rd + r * dim, x_rd + r * dim, r_rd + r * dim);
            rms_norm_row(y, eps, weight, w_d, n_rd + r * dim, rstd_r + r);
        });
}

template <class T, class W>
void scale_rows_with(const Exec& exec, const NormShape& shape, const W& weight, const T* x_rd, const T* w_d,
                     const Acc<T>* rstd_r, T* y_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "scale_rows", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const A rstd = rstd_r[r];
            row.map(
                dim, [=](A v, A by) { return weight(v, rstd, by); }, y_rd + r * dim, x_rd + r * dim, w_d);
        });
}

} // namespace

template <class T>
void rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, T* y_rd, Acc<T>* rstd_r)
{
    with_weight<T>(shape,
                   [&](const auto& weight) { rms_norm_with(exec, shape, weight, x_rd, w_d, y_rd, rstd_r); });
}

template <class T>
void add_rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* r_rd, const T* w_d,
                  T* y_rd, T* n_rd, Acc<T>* rstd_r)
{
    with_weight<T>(shape, [&](const auto& weight) {
        add_rms_norm_with(exec, shape, weight, x_rd, r_rd, w_d, y_rd, n_rd, rstd_r);
    });
}

template <class T>
void row_squares(const Exec& exec, const NormShape& shape, const T* x_rd, Acc<T>* sum_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "row_squares", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const A sum = row.sum<A>(
                dim, [](A v) { return v * v; }, x_rd + r * dim);
            row.single([=] { sum_r[r] = sum; });
        });
}

template <class T>
void row_squares_grad(const Exec& exec, const NormShape& shape, const Acc<T>* dsum_r, const T* x_rd, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "row_squares_grad", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const A twice = 2 * dsum_r[r];
            row.map(
                dim, [=](A v) { return twice * v; }, dx_rd + r * dim, x_rd + r * dim);
        });
}

template <class T>
void scale_rows(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, const Acc<T>* rstd_r,
                T* y_rd)
{
    with_weight<T>(
        shape, [&](const auto& weight) { scale_rows_with(exec, shape, weight, x_rd, w_d, rstd_r, y_rd); });
}

/// Subtracted from dy w: its mean, and slope * (x - mean).
template <class A>
struct LayerNormSlope {
    A shift, slope;
};

namespace {

/// The factor of x in the gradient: mean(dy w x) rstd^2.
/// Arrays are not kept: the host's compiler would reassociate the product differently, with other bits.
template <class T, class W>
KOKKOS_FUNCTION Acc<T> rms_norm_slope(const Row& row, const W& weight, i64 dim, const T* dy, const T* x,
                                      const T* w, Acc<T> rstd)
{
    using A = Acc<T>;
    const A dot = row.sum<A>(
        dim, [=](A d, A by, A v) { return d * weight.gain(by) * v; }, dy, w, x);
    return dot * (A(1) / static_cast<A>(dim)) * rstd * rstd;
}

/// `in`: dy, w, x.
template <class T>
KOKKOS_FUNCTION LayerNormSlope<Acc<T>> layer_norm_slope(const Kept<T, 3>& in, Acc<T> mean, Acc<T> rstd)
{
    using A = Acc<T>;
    const A inverse = A(1) / static_cast<A>(in.n);
    const A shift = inverse * in.sum([](A d, A by, A) { return d * by; });
    const A dot = in.sum([=](A d, A by, A v) { return d * by * (v - mean); });
    return {shift, dot * inverse * rstd * rstd};
}

template <class T, class W>
void rms_norm_grad_x_with(const Exec& exec, const NormShape& shape, const W& weight, const T* dy_rd,
                          const T* x_rd, const T* w_d, const Acc<T>* rstd_r, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "rms_norm_grad_x", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
            const A rstd = rstd_r[r], slope = rms_norm_slope(row, weight, dim, dy, x, w_d, rstd);
            row.map(
                dim, [=](A d, A by, A v) { return rstd * (d * weight.gain(by) - slope * v); },
                dx_rd + r * dim, dy, w_d, x);
        });
}

template <class T, class W>
void rms_norm_grad_x_add_with(const Exec& exec, const NormShape& shape, const W& weight, const T* dy_rd,
                              const T* x_rd, const T* w_d, const Acc<T>* rstd_r, const T* dres_rd, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "rms_norm_grad_x_add", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
            const A rstd = rstd_r[r], slope = rms_norm_slope(row, weight, dim, dy, x, w_d, rstd);
            row.map(
                dim,
                [=](A d, A by, A v, A more) {
                    return add_rounded(A(T(rstd * (d * weight.gain(by) - slope * v))), more);
                },
                dx_rd + r * dim, dy, w_d, x, dres_rd + r * dim);
        });
}

template <class T, class W>
void scale_rows_grad_rows_with(const Exec& exec, const NormShape& shape, const W& weight, const T* dy_rd,
                               const T* x_rd, const T* w_d, Acc<T>* drstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "scale_rows_grad_rows", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const A dot = row.sum<A>(
                dim, [=](A d, A by, A v) { return d * weight.gain(by) * v; }, dy_rd + r * dim, w_d,
                x_rd + r * dim);
            row.single([=] { drstd_r[r] = dot; });
        });
}

} // namespace

template <class T>
void rms_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                     const Acc<T>* rstd_r, T* dx_rd)
{
    with_gain<T>(shape, [&](const auto& weight) {
        rms_norm_grad_x_with(exec, shape, weight, dy_rd, x_rd, w_d, rstd_r, dx_rd);
    });
}

template <class T>
void rms_norm_grad_x_add(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                         const T* w_d, const Acc<T>* rstd_r, const T* dres_rd, T* dx_rd)
{
    with_gain<T>(shape, [&](const auto& weight) {
        rms_norm_grad_x_add_with(exec, shape, weight, dy_rd, x_rd, w_d, rstd_r, dres_rd, dx_rd);
    });
}

template <class T>
void scale_rows_grad_rows(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                          const T* w_d, Acc<T>* drstd_r)
{
    with_gain<T>(shape, [&](const auto& weight) {
        scale_rows_grad_rows_with(exec, shape, weight, dy_rd, x_rd, w_d, drstd_r);
    });
}

template <class T>
void rms_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                     const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite)
{
    using A = Acc<T>;
    if (shape.rounded)
        return for_columns<A>(
            exec, "rms_norm_grad_w", shape.rows, shape.dim, shape.dim,
            KOKKOS_LAMBDA(i64 r, A d, A v) { return d * A(T(v * rstd_r[r])); },
            KOKKOS_LAMBDA(i64 c, A sum) { dw_d[c] = overwrite ? sum : dw_d[c] + sum; }, dy_rd, x_rd);
    for_columns<A>(
        exec, "rms_norm_grad_w", shape.rows, shape.dim, shape.dim,
        KOKKOS_LAMBDA(i64 r, A d, A v) { return d * v * rstd_r[r]; },
        KOKKOS_LAMBDA(i64 c, A sum) { dw_d[c] = overwrite ? sum : dw_d[c] + sum; }, dy_rd, x_rd);
}

template <class T>
void layer_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, const T* b_d, T* y_rd,
                Acc<T>* mean_r, Acc<T>* rstd_r)
{
    const i64 dim = shape.dim;
    const auto eps = static_cast<Acc<T>>(shape.eps);
    for_rows<T>(
        exec, "layer_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            layer_norm_row(row.keep(dim, x_rd + r * dim), eps, w_d, b_d, y_rd + r * dim, mean_r + r,
                           rstd_r + r);
        });
}

template <class T>
void add_layer_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* r_rd, const T* w_d,
                    const T* b_d, T* y_rd, T* n_rd, Acc<T>* mean_r, Acc<T>* rstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const auto eps = static_cast<A>(shape.eps);
    for_rows<T>(
        exec, "add_layer_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const auto y = row.keep_map(
                dim, [](A a, A b) { return a + b; }, y_rd + r * dim, x_rd + r * dim, r_rd + r * dim);
            layer_norm_row(y, eps, w_d, b_d, n_rd + r * dim, mean_r + r, rstd_r + r);
        });
}

template <class T>
void layer_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                       const Acc<T>* mean_r, const Acc<T>* rstd_r, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "layer_norm_grad_x", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const auto in = row.keep(dim, dy_rd + r * dim, w_d, x_rd + r * dim);
            const A mean = mean_r[r], rstd = rstd_r[r];
            const auto less = layer_norm_slope(in, mean, rstd);
            in.map([=](A d, A by, A v) { return rstd * (d * by - less.shift - less.slope * (v - mean)); },
                   dx_rd + r * dim);
        });
}

template <class T>
void layer_norm_grad_x_add(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                           const T* w_d, const Acc<T>* mean_r, const Acc<T>* rstd_r, const T* dres_rd,
                           T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "layer_norm_grad_x_add", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const auto in = row.keep(dim, dy_rd + r * dim, w_d, x_rd + r * dim);
            const A mean = mean_r[r], rstd = rstd_r[r];
            const auto less = layer_norm_slope(in, mean, rstd);
            in.map(
                [=](A d, A by, A v, A more) {
                    return add_rounded(A(T(rstd * (d * by - less.shift - less.slope * (v - mean)))), more);
                },
                dx_rd + r * dim, dres_rd + r * dim);
        });
}

template <class T>
void layer_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                       const Acc<T>* mean_r, const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite)
{
    using A = Acc<T>;
    for_columns<A>(
        exec, "layer_norm_grad_w", shape.rows, shape.dim, shape.dim,
        KOKKOS_LAMBDA(i64 r, A d, A v) { return d * (v - mean_r[r]) * rstd_r[r]; },
        KOKKOS_LAMBDA(i64 c, A sum) { dw_d[c] = overwrite ? sum : dw_d[c] + sum; }, dy_rd, x_rd);
}

template <class T>
void column_sum(const Exec& exec, i64 rows, i64 columns, const T* x_rn, Acc<T>* sum_n, bool overwrite,
                i64 apart)
{
    using A = Acc<T>;
    for_columns<A>(
        exec, "column_sum", rows, columns, apart > 0 ? apart : columns, KOKKOS_LAMBDA(i64, A v) { return v; },
        KOKKOS_LAMBDA(i64 c, A sum) { sum_n[c] = overwrite ? sum : sum_n[c] + sum; }, x_rn);
}

TRV_FOR_STORAGE(rms_norm)
TRV_FOR_STORAGE(rms_norm_grad_x)
TRV_FOR_STORAGE(rms_norm_grad_w)
TRV_FOR_STORAGE(row_squares)
TRV_FOR_STORAGE(row_squares_grad)
TRV_FOR_STORAGE(scale_rows)
TRV_FOR_STORAGE(scale_rows_grad_rows)
TRV_FOR_STORAGE(layer_norm)
TRV_FOR_STORAGE(layer_norm_grad_x)
TRV_FOR_STORAGE(layer_norm_grad_w)
TRV_FOR_STORAGE(add_rms_norm)
TRV_FOR_STORAGE(add_layer_norm)
TRV_FOR_STORAGE(rms_norm_grad_x_add)
TRV_FOR_STORAGE(layer_norm_grad_x_add)
TRV_FOR_STORAGE(column_sum)

} // namespace trivium::kernels
