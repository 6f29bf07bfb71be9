#include "kernels/general/dynamic_slice.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

/// The shape with its trailing dimensions that are neither sliced nor sharded as one unit of `unit` elements.
/// At least one dimension stays.
struct SliceBlocks {
    DynamicSliceShape shape;
    i64 unit = 1;
    i64 rows = 1; ///< of the slice: all dimensions but the last

    i64 columns() const { return shape.slice_extent[shape.rank - 1] * unit; }
};

namespace {

SliceBlocks blocks_of(const DynamicSliceShape& shape)
{
    TRV_CHECK(shape.rank <= most_dims, "dynamic slice: ", shape.rank, " dimensions; at most ", most_dims);
    SliceBlocks blocks;
    DynamicSliceShape& s = blocks.shape = shape;
    while (s.rank > 0) {
        const int d = s.rank - 1;
        if (s.size[d] != s.whole[d] || s.extent[d] != s.whole[d] || s.slice_extent[d] != s.whole[d])
            break;
        blocks.unit *= s.whole[d];
        --s.rank;
    }
    if (s.rank == 0) {
        s.whole[0] = s.extent[0] = s.size[0] = s.slice_extent[0] = 1;
        s.begin[0] = s.slice_begin[0] = 0;
        s.rank = 1;
    }
    blocks.rows = product_of(s.slice_extent, s.rank - 1);
    return blocks;
}

/// Where a row of the slice lies in the local part of the whole tensor.
struct SliceRow {
    bool inside = true;     ///< in all dimensions but the last
    i64 offset = 0;         ///< of the row's first element, even if that is outside in the last dimension
    i64 first = 0, end = 0; ///< the range of columns that is inside
};

TRV_HOST_DEVICE SliceRow row_of(const SliceBlocks& blocks, const DynamicStarts& starts, i64 r)
{
    const DynamicSliceShape& s = blocks.shape;
    SliceRow row;
    i64 stride = blocks.unit;
    for (int d = s.rank - 1; d >= 0; --d) {
        const i64 start = starts.of[d] ? clamped(*starts.of[d], 0, s.whole[d] - s.size[d]) : 0;
        const i64 shift = start + s.slice_begin[d] - s.begin[d]; // local place of the slice's element 0
        if (d == s.rank - 1) {
            const i64 count = s.slice_extent[d];
            row.first = clamped(-shift, 0, count) * blocks.unit;
            row.end = clamped(s.extent[d] - shift, 0, count) * blocks.unit;
            row.offset += shift * stride;
        } else {
            const i64 at = take_last(r, s.slice_extent[d]) + shift;
            row.inside = row.inside && at >= 0 && at < s.extent[d];
            row.offset += at * stride;
        }
        stride *= s.extent[d];
    }
    if (!row.inside || row.end < row.first)
        row.first = row.end = 0;
    return row;
}

} // namespace

template <class T>
void dynamic_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const DynamicStarts& starts,
                   T* y)
{
    const SliceBlocks blocks = blocks_of(shape);
    const i64 columns = blocks.columns();
    const DynamicStarts from = starts;
    for_tiles(
        exec, "dynamic_slice", blocks.rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            const SliceRow place = row_of(blocks, from, r);
            const i64 first = clamped(place.first, a, b), end = clamped(place.end, first, b);
            T* const to = y + r * columns;
            row.each(first - a, [=](i64 i) { to[a + i] = T(Acc<T>(0)); });
            row.copy(end - first, x + place.offset + first, to + first);
            row.each(b - end, [=](i64 i) { to[end + i] = T(Acc<T>(0)); });
        });
}

template <class T>
void dynamic_update_slice(const Exec& exec, const DynamicSliceShape& shape, const T* x, const T* update,
                          const DynamicStarts& starts, T* y)
{
    if (x != y)
        copy_array(exec, "dynamic_update_slice", product_of(shape.extent, shape.rank), x, y);
    const SliceBlocks blocks = blocks_of(shape);
    const i64 columns = blocks.columns();
    const DynamicStarts from = starts;
    for_tiles(
        exec, "dynamic_update_slice", blocks.rows, columns,
        KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            const SliceRow place = row_of(blocks, from, r);
            const i64 first = clamped(place.first, a, b), end = clamped(place.end, first, b);
            row.copy(end - first, update + r * columns + first, y + place.offset + first);
        });
}

TRV_FOR_TENSOR(dynamic_slice)
TRV_FOR_TENSOR(dynamic_update_slice)

} // namespace trivium::kernels
