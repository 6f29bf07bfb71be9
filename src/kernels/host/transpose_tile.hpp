#pragma once
// Internal: transposes small matrices by squares in registers.
#include "kernels/exec.hpp"

#include <type_traits>

namespace trivium::kernels {

/// A square of four (doubles: two) rows of 16 bytes, transposed in registers.
template <class A>
struct Square {
    static constexpr int size = 16 / static_cast<int>(sizeof(A));
    typedef A Line __attribute__((vector_size(16)));
    typedef A Unaligned __attribute__((vector_size(16), aligned(alignof(A)), may_alias));

    template <class In>
    static Line load(const In* from)
    {
        if constexpr (std::is_same_v<In, A>) {
            return *reinterpret_cast<const Unaligned*>(from);
        } else {
            Line line;
            for (int i = 0; i < size; ++i)
                line[i] = A(from[i]);
            return line;
        }
    }

    /// to[p*stride_to + i] = from[p + i*stride_from] for p, i < size.
    template <class In>
    static void transpose(const In* from, i64 stride_from, A* to, i64 stride_to)
    {
        const auto put = [&](int p, Line line) { *reinterpret_cast<Unaligned*>(to + p * stride_to) = line; };
        const Line a = load(from), b = load(from + stride_from);
        if constexpr (size == 2) {
            put(0, __builtin_shufflevector(a, b, 0, 2));
            put(1, __builtin_shufflevector(a, b, 1, 3));
        } else {
            const Line c = load(from + 2 * stride_from), d = load(from + 3 * stride_from);
            const Line ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5),
                       ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7),
                       bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5),
                       bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
            put(0, __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5));
            put(1, __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7));
            put(2, __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5));
            put(3, __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7));
        }
    }
};

/// to[p*width + i] = from[p + i*stride] for p < k, i < n.
template <class In>
void pack_transposed(const In* from, i64 stride, i64 k, i64 n, Acc<In>* to, i64 width)
{
    constexpr i64 size = Square<Acc<In>>::size;
    const i64 whole_n = n / size * size, whole_k = k / size * size;
    for (i64 i = 0; i < whole_n; i += size)
        for (i64 p = 0; p < whole_k; p += size)
            Square<Acc<In>>::transpose(from + p + i * stride, stride, to + p * width + i, width);
    for (i64 i = 0; i < n; ++i)
        for (i64 p = i < whole_n ? whole_k : 0; p < k; ++p)
            to[p * width + i] = from[p + i * stride];
}

} // namespace trivium::kernels
