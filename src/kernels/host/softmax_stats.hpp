#pragma once
// Log-sum-exp of a row. device/softmax_stats.hpp has the same function.
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host {

/// log(sum of exp(x[i])) without overflow; -inf if all x are -inf.
template <class T>
Acc<T> log_sum_exp(const Row& row, i64 n, const T* x_n)
{
    using A = Acc<T>;
    // Blocks that stay in the cache between the maximum and the sum: one pass over memory.
    constexpr i64 width = 4096;
    const A lowest = -std::numeric_limits<A>::infinity();
    A row_max = lowest, shift = 0, row_sum = 0;
    for (i64 begin = 0; begin < n; begin += width) {
        const T* x = x_n + begin;
        const i64 count = std::min(width, n - begin);
        const A here = row.max<A>(count, [=](i64 i) { return A(x[i]); });
        const A next = here > row_max ? here : row_max;
        // If all values so far are -inf, shift by 0: exp(-inf) is 0, exp(-inf + inf) would be NaN.
        shift = next == lowest ? A(0) : next;
        const A drop = shift;
        row_sum = row_sum * fast_exp(row_max - shift) +
                  row.sum<A>(count, [=](i64 i) { return fast_exp(A(x[i]) - drop); });
        row_max = next;
    }
    return shift + logarithm(row_sum);
}

} // namespace on_host
} // namespace trivium::kernels
