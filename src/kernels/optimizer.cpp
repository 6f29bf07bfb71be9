#include "kernels/optimizer.hpp"

#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

namespace {
constexpr i64 block_size = 16384;
}

Bytes sum_squares_scratch(i64 n)
{
    return ceil_div(n, block_size) * static_cast<Bytes>(sizeof(double));
}

template <class Real>
void sum_squares(const Exec& exec, i64 n, const Real* x, double* out, Scratch scratch)
{
    const i64 blocks = ceil_div(n, block_size);
    TRV_CHECK(scratch.size >= sum_squares_scratch(n), "sum_squares of ", n, " numbers got ", scratch.size, " B");
    auto* partial = static_cast<double*>(scratch.data);
    for_rows(exec, "sum_squares", blocks, KOKKOS_LAMBDA(const Row& row, i64 block) {
        const Real* from = x + block * block_size;
        const i64 count = n - block * block_size < block_size ? n - block * block_size : block_size;
        const double sum =
            row.sum<double>(count, [=](i64 i) { return static_cast<double>(from[i]) * static_cast<double>(from[i]); });
        row.single([=] { partial[block] = sum; });
    });
    for_rows(exec, "sum_squares_join", 1, KOKKOS_LAMBDA(const Row& row, i64) {
        row.single([=] {
            double total = 0;
            for (i64 block = 0; block < blocks; ++block)
                total += partial[block];
            *out = total;
        });
    });
}

void global_norm(const Exec& exec, i64 count, const double* squares, const double* token_count, double clip,
                 double* out)
{
    for_rows(exec, "global_norm", 1, KOKKOS_LAMBDA(const Row& row, i64) {
        row.single([=] {
            double total = 0;
            for (i64 i = 0; i < count; ++i)
                total += squares[i];
            const double norm = square_root(total) / *token_count;
            out[0] = norm;
            out[1] = (clip > 0 && norm > clip ? clip / norm : 1.0) / *token_count;
        });
    });
}

template <class Real>
void adamw(const Exec& exec, i64 n, const AdamwStep& step, const AdamwState<Real>& state, const double* factor)
{
    Real *p = state.p, *m = state.m, *v = state.v;
    const Real* g = state.g;
    const Real beta1 = static_cast<Real>(step.beta1), rest1 = static_cast<Real>(1 - step.beta1);
    const Real beta2 = static_cast<Real>(step.beta2), rest2 = static_cast<Real>(1 - step.beta2);
    const Real keep = static_cast<Real>(1 - step.lr * step.weight_decay);
    // lr m/c1 / (sqrt(v/c2) + eps) = rate m / (sqrt(v) + floor), one division.
    const double root = square_root(step.correction2);
    const Real rate = static_cast<Real>(step.lr / step.correction1 * root), floor = static_cast<Real>(step.eps * root);
    for_each_index(exec, "adamw", n, KOKKOS_LAMBDA(i64 i) {
        const Real grad = static_cast<Real>(*factor) * g[i];
        const Real mean = beta1 * m[i] + rest1 * grad, square = beta2 * v[i] + rest2 * grad * grad;
        m[i] = mean;
        v[i] = square;
        p[i] = keep * p[i] - rate * mean / (square_root(square) + floor);
    });
}

#define TRV_INSTANTIATE(Real)                                                                                          \
    template void sum_squares(const Exec&, i64, const Real*, double*, Scratch);                                        \
    template void adamw(const Exec&, i64, const AdamwStep&, const AdamwState<Real>&, const double*);
TRV_FOR_REAL(TRV_INSTANTIATE)

} // namespace trivium::kernels
