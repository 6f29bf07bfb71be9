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

    template <int n, class Get>
    KOKKOS_FUNCTION void add(Get get)
    {
        A next = row_max;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            next = get(j) > next ? get(j) : next;
        const A drop = shift(next);
        if (next > row_max) // rare after the first elements of a row
            row_sum *= fast_exp(row_max - drop);
        row_max = next;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            row_sum += fast_exp(get(j) - drop);
    }
};

/// log(sum of exp(x[i])), stable; -inf if all x are -inf. One pass; all threads get the result.
template <class T>
KOKKOS_FUNCTION Acc<T> log_sum_exp(const Row& row, i64 n, const T* x_n)
{
    using A = Acc<T>;
    constexpr int width = pack_width<T>(), ahead = 4;
    const Split parts = split<width>(n, x_n);
    const int self = row.team().rank(), count = row.team().size();
    RunningSoftmax<A> mine;
    detail::Input<T, width, ahead> in{x_n, {}};
    detail::each_pack<ahead>(parts.packs, self, count, [&](i64 p, int slot, bool ready) {
        if (ready)
            mine.template add<width>([&](int j) { return in.get(slot, j); });
        else
            in.load(slot, parts.head + p * width);
    });
    detail::each_single(n, width, parts, self, count,
                        [&](i64 i) { mine.template add<1>([&](int) { return in.one(i); }); });
    const A row_max = row.joined_max(mine.row_max), drop = RunningSoftmax<A>::shift(row_max);
    return drop + logarithm(row.joined_sum(mine.row_sum * fast_exp(mine.row_max - drop)));
}

} // namespace on_teams
} // namespace trivium::kernels
