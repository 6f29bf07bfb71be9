#pragma once
// Small matrix products inside a kernel, by a team. The same function as host/tile_product.hpp.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

template <class A>
inline constexpr i64 tile_lanes = 1;

/// c[m, n] (+)= a · b where a(i, p) = a[i*am + p*ak], b is [k, n] with rows ldb apart, c with rows ldc. All
/// threads call it; begins and ends with a barrier.
template <class A>
KOKKOS_FUNCTION void tile_product(const Row& row, i64 m, i64 n, i64 k, const A* a, i64 am, i64 ak, const A* b,
                                  i64 ldb, A* c, i64 ldc, bool accumulate)
{
    row.sync();
    row.each(m * n, [=](i64 at) {
        const i64 i = at / n, j = at % n;
        A sum = accumulate ? c[i * ldc + j] : A(0);
        for (i64 p = 0; p < k; ++p)
            sum += a[i * am + p * ak] * b[p * ldb + j];
        c[i * ldc + j] = sum;
    });
    row.sync();
}

} // namespace on_teams
} // namespace trivium::kernels
