#pragma once
// Rotary embedding of one token. The same function as host/rotate.hpp.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

/// rotate(), `width` pairs at a time.
template <int width, class T>
KOKKOS_FUNCTION void rotate_packs(const Team& team, int heads, int half, const T* x_he, const Acc<T>* turn_i2,
                                  Acc<T> sign, T* y_he)
{
    using A = Acc<T>;
    constexpr int turns = width == 1 ? 1 : pack_width<A>();
    const int packs = half / width, all = heads * packs;
    TRV_ROLLED
    for (int at = team.rank(); at < all; at += team.size()) {
        const int head = at / packs, i = (at - head * packs) * width;
        const i64 low = static_cast<i64>(head) * 2 * half + i;
        const auto a = Pack<T, width>::load(x_he + low), b = Pack<T, width>::load(x_he + low + half);
        Pack<A, turns> turn[2 * width / turns];
        TRV_UNROLL
        for (int t = 0; t < 2 * width / turns; ++t)
            turn[t] = Pack<A, turns>::load(turn_i2 + 2 * i + t * turns);
        Pack<T, width> first, second;
        TRV_UNROLL
        for (int j = 0; j < width; ++j) {
            const A c = turn[2 * j / turns].at[2 * j % turns],
                    s = sign * turn[(2 * j + 1) / turns].at[(2 * j + 1) % turns];
            first.at[j] = T(A(a.at[j]) * c - A(b.at[j]) * s);
            second.at[j] = T(A(b.at[j]) * c + A(a.at[j]) * s);
        }
        first.store(y_he + low);
        second.store(y_he + low + half);
    }
}

} // namespace detail

/// y_he = x_he [heads, 2 half] with the pairs (i, i + half) of each head rotated by turn_i2 = (cos, sin), sin
/// times `sign`. y may be x. All threads of the team call it.
template <class T>
KOKKOS_FUNCTION void rotate(const Row& row, i64 heads, i64 half, const T* x_he, const Acc<T>* turn_i2,
                            Acc<T> sign, T* y_he)
{
    constexpr int width = pack_width<T>();
    const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    if (half % width == 0 && aligned(x_he) && aligned(y_he) && aligned(turn_i2))
        detail::rotate_packs<width>(row.team(), static_cast<int>(heads), static_cast<int>(half), x_he,
                                    turn_i2, sign, y_he);
    else
        detail::rotate_packs<1>(row.team(), static_cast<int>(heads), static_cast<int>(half), x_he, turn_i2,
                                sign, y_he);
}

} // namespace on_teams
} // namespace trivium::kernels
