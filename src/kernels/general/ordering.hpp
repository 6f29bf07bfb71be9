#pragma once
// Sorts, largest elements and cumulative sums along one dimension.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A tensor [outer, n, inner], and its lines of n elements along the middle dimension.
struct Lines {
    i64 outer = 1, n = 1, inner = 1;
};

/// order[o, i, j] = index in the line of the element that a stable sort of keys[o, :, j] puts at i. NaN is
/// last in both directions; equal keys keep their order in both. One thread sorts a line. \pre n < 2^31
template <class T>
void sort_order(const Exec& exec, const Lines& lines, bool descending, const T* keys, std::int32_t* order);

/// y[o, i, j] = x[o, order[o, i, j], j].
template <class T>
void take_along(const Exec& exec, const Lines& lines, const T* x, const std::int32_t* order, T* y);

/// The k largest elements of each row of x [rows, n], largest first: values [rows, k], and indices [rows, k]
/// with first_index added. Equal elements are in the order of their indices; NaN is smaller than all numbers.
/// \pre k <= n, first_index + n < 2^31
template <class T>
void top_k(const Exec& exec, i64 rows, i64 n, i64 k, i64 first_index, const T* x, T* values,
           std::int32_t* indices);

/// y[o, i, j] = sum of x[o, i', j] over i' <= i, or over i' >= i if `backwards`, added in Acc<T> in this
/// order. y may be x.
template <class T>
void cumsum(const Exec& exec, const Lines& lines, bool backwards, const T* x, T* y);

} // namespace trivium::kernels
