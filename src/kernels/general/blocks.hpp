#pragma once
// Internal: loops of the general kernels, and coordinates of elements.
#include "row_parallel.hpp"

namespace trivium::kernels {

inline constexpr int most_dims = 16; ///< largest number of dimensions of a tensor

/// f(i) for i in [0, n), independent of each other, in blocks of a fixed size, so that the bits of f(i) do
/// not depend on the partition. Use `block` = loops_per_row if f(i) contains a loop.
template <i64 block = 64, class F>
void for_blocks(const Exec& exec, const char* label, i64 n, F f)
{
    for_rows<float>(
        exec, label, ceil_div(n, block), block, KOKKOS_LAMBDA(const Row& row, i64 b) {
            const i64 begin = b * block;
            row.each(n - begin < block ? n - begin : block, [&](i64 i) { f(begin + i); });
        });
}

/// f(row, r, begin, end) for ranges of up to 256 of the `columns` columns in each of `rows` rows.
template <class F>
void for_tiles(const Exec& exec, const char* label, i64 rows, i64 columns, F f)
{
    constexpr i64 width = 256;
    const i64 tiles = ceil_div(columns, width);
    for_rows<float>(
        exec, label, rows * tiles, width, KOKKOS_LAMBDA(const Row& row, i64 i) {
            const i64 begin = i % tiles * width;
            f(row, i / tiles, begin, columns - begin < width ? columns : begin + width);
        });
}

// Internal linkage: nvcc keeps the function that copies a lambda's captures per source file, and leaves it
// unset in all files but one if the linker merges their copies of a function that makes a lambda.
template <class T>
static void copy_array(const Exec& exec, const char* label, i64 n, const T* x, T* y)
{
    for_tiles(
        exec, label, 1, n, KOKKOS_LAMBDA(const Row& row, i64, i64 begin, i64 end) {
            row.copy(end - begin, x + begin, y + begin);
        });
}

template <class T>
static void fill_array(const Exec& exec, const char* label, i64 n, T value, T* y)
{
    for_each_index(
        exec, label, n, KOKKOS_LAMBDA(i64 i) { y[i] = value; });
}

/// Returns the last coordinate of a row-major index, and removes it from the index.
TRV_HOST_DEVICE inline i64 take_last(i64& index, i64 extent)
{
    const i64 coordinate = index % extent;
    index /= extent;
    return coordinate;
}

/// a restricted to [low, high].
TRV_HOST_DEVICE inline i64 clamped(i64 a, i64 low, i64 high) { return a < low ? low : a > high ? high : a; }

/// The strides of a contiguous tensor.
inline void put_strides(const i64* extents, int rank, i64* strides)
{
    i64 stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
        strides[d] = stride;
        stride *= extents[d];
    }
}

inline i64 product_of(const i64* extents, int count)
{
    i64 product = 1;
    for (int d = 0; d < count; ++d)
        product *= extents[d];
    return product;
}

} // namespace trivium::kernels
