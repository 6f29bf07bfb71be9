#include "kernels/norm.hpp"

#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, T* y_rd, Acc<T>* rstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const A eps = static_cast<A>(shape.eps), inverse = A(1) / static_cast<A>(dim);
    for_rows(exec, "rms_norm", shape.rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T* x = x_rd + r * dim;
        T* y = y_rd + r * dim;
        const A square = row.sum<A>(dim, [=](i64 i) { return A(x[i]) * A(x[i]); });
        const A rstd = A(1) / square_root(square * inverse + eps);
        row.single([=] { rstd_r[r] = rstd; });
        row.each(dim, [=](i64 i) { y[i] = T(A(x[i]) * rstd * A(w_d[i])); });
    });
}

template <class T>
void rms_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                     const Acc<T>* rstd_r, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const A inverse = A(1) / static_cast<A>(dim);
    for_rows(exec, "rms_norm_grad_x", shape.rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
        T* dx = dx_rd + r * dim;
        const A rstd = rstd_r[r];
        const A dot = row.sum<A>(dim, [=](i64 i) { return A(dy[i]) * A(w_d[i]) * A(x[i]); });
        const A slope = dot * inverse * rstd * rstd;
        row.each(dim, [=](i64 i) { dx[i] = T(rstd * (A(dy[i]) * A(w_d[i]) - slope * A(x[i]))); });
    });
}

template <class T>
void rms_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const Acc<T>* rstd_r,
                     Acc<T>* dw_d, bool overwrite)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_columns<A>(
        exec, "rms_norm_grad_w", shape.rows, dim,
        KOKKOS_LAMBDA(i64 r, i64 c) { return A(dy_rd[r * dim + c]) * A(x_rd[r * dim + c]) * rstd_r[r]; },
        KOKKOS_LAMBDA(i64 c, A sum) { dw_d[c] = overwrite ? sum : dw_d[c] + sum; });
}

template <class T>
void layer_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, const T* b_d, T* y_rd,
                Acc<T>* mean_r, Acc<T>* rstd_r)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const A eps = static_cast<A>(shape.eps), inverse = A(1) / static_cast<A>(dim);
    for_rows(exec, "layer_norm", shape.rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T* x = x_rd + r * dim;
        T* y = y_rd + r * dim;
        const A mean = inverse * row.sum<A>(dim, [=](i64 i) { return A(x[i]); });
        const A square = row.sum<A>(dim, [=](i64 i) { return (A(x[i]) - mean) * (A(x[i]) - mean); });
        const A rstd = A(1) / square_root(square * inverse + eps);
        row.single([=] {
            mean_r[r] = mean;
            rstd_r[r] = rstd;
        });
        if (b_d)
            row.each(dim, [=](i64 i) { y[i] = T((A(x[i]) - mean) * rstd * A(w_d[i]) + A(b_d[i])); });
        else
            row.each(dim, [=](i64 i) { y[i] = T((A(x[i]) - mean) * rstd * A(w_d[i])); });
    });
}

template <class T>
void layer_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                       const Acc<T>* mean_r, const Acc<T>* rstd_r, T* dx_rd)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    const A inverse = A(1) / static_cast<A>(dim);
    for_rows(exec, "layer_norm_grad_x", shape.rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T *dy = dy_rd + r * dim, *x = x_rd + r * dim;
        T* dx = dx_rd + r * dim;
        const A mean = mean_r[r], rstd = rstd_r[r];
        const A shift = inverse * row.sum<A>(dim, [=](i64 i) { return A(dy[i]) * A(w_d[i]); });
        const A dot = row.sum<A>(dim, [=](i64 i) { return A(dy[i]) * A(w_d[i]) * (A(x[i]) - mean); });
        const A slope = dot * inverse * rstd * rstd;
        row.each(dim, [=](i64 i) {
            dx[i] = T(rstd * (A(dy[i]) * A(w_d[i]) - shift - slope * (A(x[i]) - mean)));
        });
    });
}

template <class T>
void layer_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const Acc<T>* mean_r,
                       const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite)
{
    using A = Acc<T>;
    const i64 dim = shape.dim;
    for_columns<A>(
        exec, "layer_norm_grad_w", shape.rows, dim,
        KOKKOS_LAMBDA(i64 r, i64 c) {
            return A(dy_rd[r * dim + c]) * (A(x_rd[r * dim + c]) - mean_r[r]) * rstd_r[r];
        },
        KOKKOS_LAMBDA(i64 c, A sum) { dw_d[c] = overwrite ? sum : dw_d[c] + sum; });
}

template <class T>
void column_sum(const Exec& exec, i64 rows, i64 columns, const T* x_rn, Acc<T>* sum_n, bool overwrite)
{
    using A = Acc<T>;
    for_columns<A>(
        exec, "column_sum", rows, columns, KOKKOS_LAMBDA(i64 r, i64 c) { return A(x_rn[r * columns + c]); },
        KOKKOS_LAMBDA(i64 c, A sum) { sum_n[c] = overwrite ? sum : sum_n[c] + sum; });
}

#define TRV_INSTANTIATE(T)                                                                                             \
    template void rms_norm(const Exec&, const NormShape&, const T*, const T*, T*, Acc<T>*);                            \
    template void rms_norm_grad_x(const Exec&, const NormShape&, const T*, const T*, const T*, const Acc<T>*, T*);     \
    template void rms_norm_grad_w(const Exec&, const NormShape&, const T*, const T*, const Acc<T>*, Acc<T>*, bool);    \
    template void layer_norm(const Exec&, const NormShape&, const T*, const T*, const T*, T*, Acc<T>*, Acc<T>*);       \
    template void layer_norm_grad_x(const Exec&, const NormShape&, const T*, const T*, const T*, const Acc<T>*,        \
                                    const Acc<T>*, T*);                                                                \
    template void layer_norm_grad_w(const Exec&, const NormShape&, const T*, const T*, const Acc<T>*, const Acc<T>*,   \
                                    Acc<T>*, bool);                                                                    \
    template void column_sum(const Exec&, i64, i64, const T*, Acc<T>*, bool);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
