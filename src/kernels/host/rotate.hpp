#pragma once
// Rotary embedding of one token. device/rotate.hpp has the same function.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host {

/// y_he = x_he with the pairs (i, i + half) of each head rotated by turn_i2 = (cos, sin), sin times `sign`. y
/// may be x.
template <class T>
void rotate(const Row& row, i64 heads, i64 half, const T* x_he, const Acc<T>* turn_i2, Acc<T> sign, T* y_he)
{
    using A = Acc<T>;
    for (i64 h = 0; h < heads; ++h) {
        const T* x = x_he + h * 2 * half;
        T* y = y_he + h * 2 * half;
        row.each(half, [=](i64 i) {
            const A c = turn_i2[2 * i], s = sign * turn_i2[2 * i + 1], a = x[i], b = x[i + half];
            y[i] = T(a * c - b * s);
            y[i + half] = T(b * c + a * s);
        });
    }
}

} // namespace on_host
} // namespace trivium::kernels
