#include "kernels/norm.hpp"

#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

namespace {

template <class T>
KOKKOS_FUNCTION void rms_norm_row(const Kept<T, 1>& x, Acc<T> eps, const T* w, T* y, Acc<T>* to_rstd)
{
    using A = Acc<T>;
    const A square = x.sum([](A v) { return v * v; });
    const A rstd = A(1) / square_root(square * (A(1) / static_cast<A>(x.n)) + eps);
    x.row.single([=] { *to_rstd = rstd; });
    x.map([=](A v, A by) { return v * rstd * by; }, y, w);
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

} // namespace

template <class T>
void rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, T* y_rd, Acc<T>* rstd_r)
{
    const i64 dim = shape.dim;
    const auto eps = static_cast<Acc<T>>(shape.eps);
    for_rows<T>(
        exec, "rms_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            rms_norm_row(row.keep(dim, x_rd + r * dim), eps, w_d, y_rd + r * dim, rstd_r + r);
        });
}

template <class T>
void add_rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* r_rd, const T* w_d,
                  T* y_rd, T* n_rd, Acc<T>* rstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const auto eps = static_cast<A>(shape.eps);
    for_rows<T>(
        exec, "add_rms_norm", shape.rows, dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const auto y = row.keep_map(
                dim, [](A a, A b) { return a + b; }, y_rd + r * dim, x_rd + r * dim, r_rd + r * dim);
            rms_norm_row(y, eps, w_d, n_rd + r * dim, rstd_r + r);
        });
}

/// Subtracted from dy w: its mean, and slope * (x - mean).
template <class A>
struct LayerNormSlope {
    A shift, slope;
};

namespace {

/// The factor of x in the gradient: mean(dy w x) rstd^2.
/// Arrays are not kept: the host's compiler would reassociate the product differently, with other bits.
template <class T>
KOKKOS_FUNCTION Acc<T> rms_norm_slope(const Row& row, i64 dim, const T* dy, const T* x, const T* w,
                                      Acc<T> rstd)
{
    using A = Acc<T>;
    const A dot = row.sum<A>(
        dim, [](A d, A by, A v) { return d * by * v; }, dy, w, x);
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

} // namespace

template <class T>
void rms_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                     const Acc<T>* rstd_r, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "rms_norm_grad_x", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
            const A rstd = rstd_r[r], slope = rms_norm_slope(row, dim, dy, x, w_d, rstd);
            row.map(
                dim, [=](A d, A by, A v) { return rstd * (d * by - slope * v); }, dx_rd + r * dim, dy, w_d,
                x);
        });
}

template <class T>
void rms_norm_grad_x_add(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                         const T* w_d, const Acc<T>* rstd_r, const T* dres_rd, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_rows<T>(
        exec, "rms_norm_grad_x_add", shape.rows, 2 * dim, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
            const A rstd = rstd_r[r], slope = rms_norm_slope(row, dim, dy, x, w_d, rstd);
            row.map(
                dim,
                [=](A d, A by, A v, A more) { return add_rounded(A(T(rstd * (d * by - slope * v))), more); },
                dx_rd + r * dim, dy, w_d, x, dres_rd + r * dim);
        });
}

template <class T>
void rms_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                     const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite)
{
    using A = Acc<T>;
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
TRV_FOR_STORAGE(layer_norm)
TRV_FOR_STORAGE(layer_norm_grad_x)
TRV_FOR_STORAGE(layer_norm_grad_w)
TRV_FOR_STORAGE(add_rms_norm)
TRV_FOR_STORAGE(add_layer_norm)
TRV_FOR_STORAGE(rms_norm_grad_x_add)
TRV_FOR_STORAGE(layer_norm_grad_x_add)
TRV_FOR_STORAGE(column_sum)

} // namespace trivium::kernels
