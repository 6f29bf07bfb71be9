#pragma once
// Rotary embedding of one token. device/rotate.hpp has the same function.
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host {

/// A token's heads: the first 2 pairs of `dim` elements of each rotate.
struct Heads {
    i64 count, dim, pairs;
};

/// y_he = x_he with the pairs (i, i + pairs) of each head rotated by turn_i2 = (cos, sin), sin times `sign`.
/// The elements without a pair are not written. y may be x.
template <class T>
void rotate(const Row& row, const Heads& heads, const T* x_he, const Acc<T>* turn_i2, Acc<T> sign, T* y_he)
{
    using A = Acc<T>;
    const i64 half = heads.pairs;
    for (i64 h = 0; h < heads.count; ++h) {
        const T* x = x_he + h * heads.dim;
        T* y = y_he + h * heads.dim;
        row.each(half, [=](i64 i) {
            const A c = turn_i2[2 * i], s = sign * turn_i2[2 * i + 1], a = x[i], b = x[i + half];
            y[i] = T(a * c - b * s);
            y[i + half] = T(b * c + a * s);
        });
    }
}

/// rotate() of the pairs (2i, 2i + 1).
template <class T>
void rotate_neighbours(const Row& row, const Heads& heads, const T* x_he, const Acc<T>* turn_i2, Acc<T> sign,
                       T* y_he)
{
    using A = Acc<T>;
    for (i64 h = 0; h < heads.count; ++h) {
        const T* x = x_he + h * heads.dim;
        T* y = y_he + h * heads.dim;
        row.each(heads.pairs, [=](i64 i) {
            const A c = turn_i2[2 * i], s = sign * turn_i2[2 * i + 1], a = x[2 * i], b = x[2 * i + 1];
            y[2 * i] = T(a * c - b * s);
            y[2 * i + 1] = T(b * c + a * s);
        });
    }
}

} // namespace on_host
} // namespace trivium::kernels
