#pragma once
// The maximum of a row and the sum of its exponentials. The same function as host/softmax_stats.hpp.
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

/// A running maximum, and the sum of exponentials under it (Milakov & Gimelshein 2018).
template <class A>
struct RunningSoftmax {
    A top = -A(INFINITY), total = 0;

    /// What exponents are taken relative to: 0 where all is -inf so far, as exp(-inf + inf) would be NaN.
    KOKKOS_FUNCTION static A shift(A top) { return top == -A(INFINITY) ? A(0) : top; }

    template <int n, class Get>
    KOKKOS_FUNCTION void add(Get get)
    {
        A next = top;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            next = get(j) > next ? get(j) : next;
        const A drop = shift(next);
        if (next > top) // seldom, once a row is under way
            total *= fast_exp(top - drop);
        top = next;
        TRV_UNROLL
        for (int j = 0; j < n; ++j)
            total += fast_exp(get(j) - drop);
    }
};

/// log(sum of exp(x[i])), stable; -inf where all are. One pass; all threads get it.
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
    const A top = row.joined_max(mine.top), drop = RunningSoftmax<A>::shift(top);
    return drop + logarithm(row.joined_sum(mine.total * fast_exp(mine.top - drop)));
}

} // namespace on_teams
} // namespace trivium::kernels
