#pragma once
// Plain products on a device whose library is not installed: correct, but far slower than a library.
// device/hip/blas/multiply.hpp has the same functions.
#include "kernels/gemm.hpp"
#include "team.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

/// Computes one block of 4 x 4 results per index, each a sum in the order of k.
template <class In, class Out>
struct MultiplyBlock {
    static constexpr int side = 4;
    using A = Acc<In>;

    const In *a, *b;
    Out* c;
    i64 m, n, k;
    i64 am, ak, bk, bn; ///< elements between rows (am, bk) and columns (ak, bn) of op(A) and op(B)
    i64 stride_a, stride_b, stride_c, down, across;
    bool overwrite;

    KOKKOS_FUNCTION void operator()(i64 index) const
    {
        const i64 batch = index / (down * across), block = index % (down * across);
        const i64 i0 = block / across * side, j0 = block % across * side;
        const In *const from_a = a + batch * stride_a, *const from_b = b + batch * stride_b;
        Out* const to = c + batch * stride_c;
        A sum[side][side] = {};
        for (i64 p = 0; p < k; ++p) {
            A left[side], right[side];
            for (int i = 0; i < side; ++i) {
                left[i] = i0 + i < m ? A(from_a[(i0 + i) * am + p * ak]) : A(0);
                right[i] = j0 + i < n ? A(from_b[p * bk + (j0 + i) * bn]) : A(0);
            }
            for (int i = 0; i < side; ++i)
                for (int j = 0; j < side; ++j)
                    sum[i][j] += left[i] * right[j];
        }
        for (int i = 0; i < side && i0 + i < m; ++i)
            for (int j = 0; j < side && j0 + j < n; ++j) {
                Out& out = to[(i0 + i) * n + j0 + j];
                out = Out(overwrite ? sum[i][j] : A(out) + sum[i][j]);
            }
    }
};

template <class In, class Out>
void multiply_as(const Exec& exec, const ProductShape& s, const void* a, const void* b, void* c,
                 bool overwrite)
{
    using Block = MultiplyBlock<In, Out>;
    const i64 down = ceil_div(s.m, Block::side), across = ceil_div(s.n, Block::side);
    launch_range(exec, "product", s.batch * down * across,
                 Block{static_cast<const In*>(a), static_cast<const In*>(b), static_cast<Out*>(c), s.m, s.n,
                       s.k, s.transpose_a ? 1 : s.row_of_a(), s.transpose_a ? s.row_of_a() : 1,
                       s.transpose_b ? 1 : s.row_of_b(), s.transpose_b ? s.row_of_b() : 1, s.stride_a,
                       s.stride_b, s.stride_c, down, across, overwrite});
}

} // namespace detail

/// Bytes of scratch of multiply(), at most `most` if that is possible.
inline Bytes multiply_scratch(const ProductShape&, Bytes) { return 0; }

/// c = op(a) · op(b), or c += op(a) · op(b) if not `overwrite`. Ignores epilogue and FP8. \pre m, n, k > 0
inline void multiply(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
                     bool overwrite, Scratch)
{
    if (shape.in == DType::f64)
        detail::multiply_as<double, double>(exec, shape, a, b, c, overwrite);
    else if (shape.in == DType::f32)
        detail::multiply_as<float, float>(exec, shape, a, b, c, overwrite);
    else if (shape.out == DType::f32)
        detail::multiply_as<bf16, float>(exec, shape, a, b, c, overwrite);
    else
        detail::multiply_as<bf16, bf16>(exec, shape, a, b, c, overwrite);
}

} // namespace on_teams
} // namespace trivium::kernels
