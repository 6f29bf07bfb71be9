#pragma once
// Rotary embedding of one token. The same function as host/rotate.hpp.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

/// A token's heads: the first 2 pairs of `dim` elements of each rotate.
struct Heads {
    i64 count, dim, pairs;
};

namespace detail {

/// (cos, sin) of `count` pairs from pair i on; sin not yet times `sign`.
template <int count, class A>
struct Turns {
    static constexpr int width = count == 1 ? 1 : pack_width<A>() < 2 * count ? pack_width<A>() : 2 * count;
    Pack<A, width> packs[2 * count / width];

    KOKKOS_FUNCTION Turns(const A* turn_i2, int i)
    {
        TRV_UNROLL
        for (int t = 0; t < 2 * count / width; ++t)
            packs[t] = Pack<A, width>::load(turn_i2 + 2 * i + t * width);
    }
    KOKKOS_FUNCTION A cos(int j) const { return packs[2 * j / width].at[2 * j % width]; }
    KOKKOS_FUNCTION A sin(int j) const { return packs[(2 * j + 1) / width].at[(2 * j + 1) % width]; }
};

/// rotate(), `width` pairs at a time.
template <int width, class T>
KOKKOS_FUNCTION void rotate_packs(const Team& team, const Heads& heads, const T* x_he, const Acc<T>* turn_i2,
                                  Acc<T> sign, T* y_he)
{
    using A = Acc<T>;
    const int half = static_cast<int>(heads.pairs), packs = half / width,
              all = static_cast<int>(heads.count) * packs;
    TRV_ROLLED
    for (int at = team.rank(); at < all; at += team.size()) {
        const int head = at / packs, i = (at - head * packs) * width;
        const i64 low = head * heads.dim + i;
        const auto a = Pack<T, width>::load(x_he + low), b = Pack<T, width>::load(x_he + low + half);
        const Turns<width, A> turns(turn_i2, i);
        Pack<T, width> first, second;
        TRV_UNROLL
        for (int j = 0; j < width; ++j) {
            const A c = turns.cos(j), s = sign * turns.sin(j);
            first.at[j] = T(A(a.at[j]) * c - A(b.at[j]) * s);
            second.at[j] = T(A(b.at[j]) * c + A(a.at[j]) * s);
        }
        first.store(y_he + low);
        second.store(y_he + low + half);
    }
}

/// rotate_neighbours(), `width` elements at a time.
template <int width, class T>
KOKKOS_FUNCTION void rotate_neighbour_packs(const Team& team, const Heads& heads, const T* x_he,
                                            const Acc<T>* turn_i2, Acc<T> sign, T* y_he)
{
    using A = Acc<T>;
    const int packs = 2 * static_cast<int>(heads.pairs) / width, all = static_cast<int>(heads.count) * packs;
    TRV_ROLLED
    for (int at = team.rank(); at < all; at += team.size()) {
        const int head = at / packs, i = (at - head * packs) * width;
        const i64 low = head * heads.dim + i;
        const auto x = Pack<T, width>::load(x_he + low);
        const Turns<width / 2, A> turns(turn_i2, i / 2);
        Pack<T, width> y;
        TRV_UNROLL
        for (int j = 0; j < width / 2; ++j) {
            const A c = turns.cos(j), s = sign * turns.sin(j), a = A(x.at[2 * j]), b = A(x.at[2 * j + 1]);
            y.at[2 * j] = T(a * c - b * s);
            y.at[2 * j + 1] = T(b * c + a * s);
        }
        y.store(y_he + low);
    }
}

/// Whether packs of `width` elements and of angles can be loaded.
template <class T>
KOKKOS_FUNCTION bool packs_fit(const Heads& heads, i64 run, const T* x_he, const Acc<T>* turn_i2,
                               const T* y_he)
{
    constexpr int width = pack_width<T>();
    const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    return run % width == 0 && heads.dim % width == 0 && aligned(x_he) && aligned(y_he) && aligned(turn_i2);
}

} // namespace detail

/// y_he = x_he with the pairs (i, i + pairs) of each head rotated by turn_i2 = (cos, sin), sin times `sign`.
/// The elements without a pair are not written. y may be x. All threads of the team call it.
template <class T>
KOKKOS_FUNCTION void rotate(const Row& row, const Heads& heads, const T* x_he, const Acc<T>* turn_i2,
                            Acc<T> sign, T* y_he)
{
    if (detail::packs_fit(heads, heads.pairs, x_he, turn_i2, y_he))
        detail::rotate_packs<pack_width<T>()>(row.team(), heads, x_he, turn_i2, sign, y_he);
    else
        detail::rotate_packs<1>(row.team(), heads, x_he, turn_i2, sign, y_he);
}

/// rotate() of the pairs (2i, 2i + 1).
template <class T>
KOKKOS_FUNCTION void rotate_neighbours(const Row& row, const Heads& heads, const T* x_he,
                                       const Acc<T>* turn_i2, Acc<T> sign, T* y_he)
{
    if (detail::packs_fit(heads, 2 * heads.pairs, x_he, turn_i2, y_he))
        return detail::rotate_neighbour_packs<pack_width<T>()>(row.team(), heads, x_he, turn_i2, sign, y_he);
    using A = Acc<T>;
    row.each(heads.count * heads.pairs, [=](i64 at) {
        const i64 i = at % heads.pairs, low = at / heads.pairs * heads.dim + 2 * i;
        const A c = turn_i2[2 * i], s = sign * turn_i2[2 * i + 1], a = A(x_he[low]), b = A(x_he[low + 1]);
        y_he[low] = T(a * c - b * s);
        y_he[low + 1] = T(b * c + a * s);
    });
}

} // namespace on_teams
} // namespace trivium::kernels
