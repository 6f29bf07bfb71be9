#pragma once
// The maximum of a row and the sum of its exponentials. The same function as host/softmax_stats.hpp.
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

/// A running maximum and the sum of exponentials relative to it (Milakov & Gimelshein 2018).
template <class A>
struct RunningSoftmax {
    A row_max = -A(INFINITY), row_sum = 0;

    /// Shift of the exponents: 0 if all values so far are -inf, because exp(-inf + inf) would be NaN.
    KOKKOS_FUNCTION static A shift(A row_max) { return row_max == -A(INFINITY) ? A(0) : row_max; }

    /// exp(x - origin) by exp2: exponentials cost as much time as memory. The difference comes first: it is
    /// exactly 0 for the row maximum, and does not overflow.
    KOKKOS_FUNCTION static A power(A x, A origin) { return fast_exp2((x - origin) * A(1.4426950408889634)); }

    /// The running softmax of the elements of `a` and `b`.
    KOKKOS_FUNCTION static RunningSoftmax joined(const RunningSoftmax& a, const RunningSoftmax& b)
    {
        const A top = b.row_max > a.row_max ? b.row_max : a.row_max, drop = shift(top);
        return {top, a.row_sum * power(a.row_max, drop) + b.row_sum * power(b.row_max, drop)};
    }

    /// Adds the elements get(0) … get(n - 1).
    template <int n, class Get>
    KOKKOS_FUNCTION void add(Get get)
    {
        A next = row_max;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            next = get(j) > next ? get(j) : next;
        const A drop = shift(next);
        if (next > row_max) // rare after the first elements of a row
            row_sum *= power(row_max, drop);
        row_max = next;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            row_sum += power(get(j), drop);
    }
};

/// log(sum of exp(x[i])), stable; -inf if all x are -inf. One pass; all threads call it and get the result.
template <class T>
KOKKOS_FUNCTION Acc<T> log_sum_exp(const Row& row, i64 n, const T* x_n)
{
    using A = Acc<T>;
    constexpr int width = pack_width<T>(), ahead = 4;
    const Split parts = split<width>(n, x_n);
    const Team& team = row.team();
    const auto all = team.join(
        RunningSoftmax<A>{},
        [&](int lane) {
            RunningSoftmax<A> mine;
            detail::Input<T, width, ahead> in{x_n, {}};
            detail::each_pack<ahead>(parts.packs, lane, team.lanes(), [&](i64 p, int slot, bool ready) {
                if (ready)
                    mine.template add<width>([&](int j) { return in.get(slot, j); });
                else
                    in.load(slot, parts.head + p * width);
            });
            detail::each_single(n, width, parts, lane, team.lanes(),
                                [&](i64 i) { mine.template add<1>([&](int) { return in.one(i); }); });
            return mine;
        },
        [](const RunningSoftmax<A>& a, const RunningSoftmax<A>& b) {
            return RunningSoftmax<A>::joined(a, b);
        });
    return RunningSoftmax<A>::shift(all.row_max) + logarithm(all.row_sum);
}

} // namespace on_teams
} // namespace trivium::kernels
