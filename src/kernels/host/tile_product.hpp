#pragma once
// Small matrix products inside a kernel, on the host: a register-blocked micro-kernel on the vector
// extensions of GCC and Clang. device/tile_product.hpp has the same function for a team.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host { // separate from on_teams: tests link both

/// Tiles are padded to a multiple of this many columns: 64 bytes.
template <class A>
inline constexpr i64 tile_lanes = 64 / static_cast<i64>(sizeof(A));

namespace detail {

/// Bytes of a register, and registers in a strip of columns: the sums of six rows and a row of b fit into 32
/// or 16 registers. A compiler keeps longer vectors in memory.
#if defined(__AVX512F__)
inline constexpr int register_bytes = 64, strip_registers = 4;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32, strip_registers = 2;
#elif defined(__aarch64__)
inline constexpr int register_bytes = 16, strip_registers = 4;
#else
inline constexpr int register_bytes = 16, strip_registers = 2;
#endif

template <class A>
struct Vector {
    typedef A type __attribute__((vector_size(register_bytes)));
    typedef A unaligned __attribute__((vector_size(register_bytes), aligned(alignof(A)), may_alias));
};

/// c[R, V*lanes] (+)= a · b, with a(r, p) = a[r*am + p*ak] broadcast to a register, b and c in registers.
template <class A, int R, int V>
inline void micro_product(i64 k, const A* a, i64 am, i64 ak, const A* b, i64 ldb, A* c, i64 ldc,
                          bool accumulate)
{
    using Vec = typename Vector<A>::type;
    using Mem = typename Vector<A>::unaligned;
    constexpr i64 lanes = register_bytes / static_cast<i64>(sizeof(A));
    Vec sum[R][V] = {};
    if (accumulate)
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v)
                sum[r][v] = *reinterpret_cast<const Mem*>(c + r * ldc + v * lanes);
    const A* half = a + R / 2 * am; // two pointers with short offsets instead of an offset per row
    for (i64 p = 0; p < k; ++p, a += ak, half += ak, b += ldb) {
        Vec right[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            right[v] = *reinterpret_cast<const Mem*>(b + v * lanes);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vec left = (r < R / 2 ? a[r * am] : half[(r - R / 2) * am]) - Vec{};
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v)
                sum[r][v] += left * right[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            *reinterpret_cast<Mem*>(c + r * ldc + v * lanes) = sum[r][v];
}

/// All m rows of one strip of V registers.
template <class A, int V>
void strip_product(i64 m, i64 k, const A* a, i64 am, i64 ak, const A* b, i64 ldb, A* c, i64 ldc,
                   bool accumulate)
{
    constexpr int rows = 6;
    i64 r = 0;
    for (; r + rows <= m; r += rows)
        micro_product<A, rows, V>(k, a + r * am, am, ak, b, ldb, c + r * ldc, ldc, accumulate);
    a += r * am;
    c += r * ldc;
    switch (m - r) {
    case 5: return micro_product<A, 5, V>(k, a, am, ak, b, ldb, c, ldc, accumulate);
    case 4: return micro_product<A, 4, V>(k, a, am, ak, b, ldb, c, ldc, accumulate);
    case 3: return micro_product<A, 3, V>(k, a, am, ak, b, ldb, c, ldc, accumulate);
    case 2: return micro_product<A, 2, V>(k, a, am, ak, b, ldb, c, ldc, accumulate);
    case 1: return micro_product<A, 1, V>(k, a, am, ak, b, ldb, c, ldc, accumulate);
    default: return;
    }
}

} // namespace detail

/// Columns of b that tile_product reads at a time. b packed in strips of this width is read without gaps.
template <class A>
inline constexpr i64 tile_strip = std::max(tile_lanes<A>, detail::strip_registers* detail::register_bytes /
                                                              static_cast<i64>(sizeof(A)));

/// c[m, n] (+)= a · b where a(i, p) = a[i*am + p*ak], b is [k, n] with rows ldb apart, c with rows ldc.
/// Columns up to the next multiple of tile_lanes are computed too: b must be readable and c writable there.
template <class A>
void tile_product(const Row&, i64 m, i64 n, i64 k, const A* a, i64 am, i64 ak, const A* b, i64 ldb, A* c,
                  i64 ldc, bool accumulate)
{
    constexpr i64 lanes = detail::register_bytes / static_cast<i64>(sizeof(A));
    constexpr int most = detail::strip_registers;
    const i64 registers = round_up(n, tile_lanes<A>) / lanes;
    i64 v = 0;
    for (; v + most <= registers; v += most)
        detail::strip_product<A, most>(m, k, a, am, ak, b + v * lanes, ldb, c + v * lanes, ldc, accumulate);
    if constexpr (most * lanes > tile_lanes<A>) { // the remaining registers, fewer than a strip
        b += v * lanes;
        c += v * lanes;
        switch (registers - v) {
        case 3: return detail::strip_product<A, 3>(m, k, a, am, ak, b, ldb, c, ldc, accumulate);
        case 2: return detail::strip_product<A, 2>(m, k, a, am, ak, b, ldb, c, ldc, accumulate);
        case 1: return detail::strip_product<A, 1>(m, k, a, am, ak, b, ldb, c, ldc, accumulate);
        default: return;
        }
    }
}

} // namespace on_host
} // namespace trivium::kernels
