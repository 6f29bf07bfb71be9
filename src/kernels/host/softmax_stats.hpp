#pragma once
// The maximum of a row and the sum of its exponentials. device/softmax_stats.hpp has the same function.
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host {

/// log(sum of exp(x[i])), stable; -inf where all are.
template <class T>
Acc<T> log_sum_exp(const Row& row, i64 n, const T* x_n)
{
    using A = Acc<T>;
    // Blocks that stay in the cache between the maximum and the sum: one pass over memory.
    constexpr i64 width = 4096;
    const A lowest = -std::numeric_limits<A>::infinity();
    A top = lowest, shift = 0, total = 0;
    for (i64 begin = 0; begin < n; begin += width) {
        const T* x = x_n + begin;
        const i64 count = std::min(width, n - begin);
        const A here = row.max<A>(count, [=](i64 i) { return A(x[i]); });
        const A next = here > top ? here : top;
        // Where all is -inf so far, shift by 0: exp(-inf) is 0, exp(-inf + inf) would be NaN.
        shift = next == lowest ? A(0) : next;
        const A drop = shift;
        total = total * fast_exp(top - shift) +
                row.sum<A>(count, [=](i64 i) { return fast_exp(A(x[i]) - drop); });
        top = next;
    }
    return shift + logarithm(total);
}

} // namespace on_host
} // namespace trivium::kernels
