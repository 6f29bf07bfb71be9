#include "kernels/general/indexing.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

#include <algorithm>

namespace trivium::kernels {

namespace {

using MapDim = IndexMap::Dim;

/// Whether every element of the dimension reads its operand at a constant distance from the previous one.
bool is_affine(const MapDim& dim)
{
    if (dim.base != 1)
        return false;
    const i64 first = -dim.low, last = (dim.out - 1) * dim.step - dim.low;
    return first >= 0 && first < dim.in && last >= 0 && last < dim.in;
}

/// A map with the same meaning and fewer dimensions, and the operand's offset. At least one dimension stays.
struct Simplified {
    IndexMap map;
    i64 offset = 0;
};
Simplified simplified(const IndexMap& from)
{
    Simplified result;
    IndexMap& map = result.map;
    for (int d = 0; d < from.rank; ++d) {
        MapDim dim = from.dims[d];
        if (is_affine(dim)) { // as: in_stride per step, from an offset
            result.offset -= dim.low * dim.in_stride;
            dim = {dim.out, dim.out_stride, dim.out, dim.step * dim.in_stride, 1, 0, 1};
            if (dim.out == 1)
                continue;
            MapDim* const last = map.rank > 0 ? &map.dims[map.rank - 1] : nullptr;
            if (last && is_affine(*last) && last->low == 0 && last->step == 1 && last->in == last->out &&
                last->out_stride == dim.out * dim.out_stride && last->in_stride == dim.out * dim.in_stride) {
                *last = {last->out * dim.out, dim.out_stride, last->out * dim.out, dim.in_stride, 1, 0, 1};
                continue;
            }
        }
        map.dims[map.rank++] = dim;
    }
    if (map.rank == 0)
        map.dims[map.rank++] = MapDim();
    return result;
}

/// The operand's index in a dimension for the result's index i, or -1.
TRV_HOST_DEVICE i64 source_of(const MapDim& dim, i64 i)
{
    const i64 at = i * dim.step - dim.low;
    if (dim.base == 1)
        return at >= 0 && at < dim.in ? at : -1;
    return at >= 0 && at % dim.base == 0 && at / dim.base < dim.in ? at / dim.base : -1;
}

constexpr i64 least_run = 16; // shorter runs cost more than single elements

/// Offsets of the element that has the row-major index r in the first `rank` dimensions.
struct MapPlace {
    i64 to = 0, from = 0;
    bool inside = true;
};
TRV_HOST_DEVICE MapPlace place_of(const IndexMap& map, int rank, i64 r)
{
    MapPlace place;
    for (int d = rank - 1; d >= 0; --d) {
        const MapDim& dim = map.dims[d];
        const i64 i = take_last(r, dim.out), source = source_of(dim, i);
        place.to += i * dim.out_stride;
        place.from += source * dim.in_stride;
        place.inside = place.inside && source >= 0;
    }
    return place;
}

/// The last dimension is long, and contiguous except for what is outside.
template <class T>
void copy_runs(const Exec& exec, const IndexMap& map, i64 rows, T value, const T* x, T* y)
{
    const MapDim last = map.dims[map.rank - 1];
    // Elements [first, end) of the row are inside.
    const i64 first = clamped(last.low, 0, last.out), end = clamped(last.low + last.in, first, last.out);
    for_tiles(
        exec, "index_copy", rows, last.out, KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            const MapPlace place = place_of(map, map.rank - 1, r);
            const i64 from = place.inside ? clamped(first, a, b) : b,
                      to = place.inside ? clamped(end, from, b) : b;
            T* const target = y + place.to;
            row.each(from - a, [=](i64 i) { target[a + i] = value; });
            row.copy(to - from, x + (place.from + from - last.low), target + from);
            row.each(b - to, [=](i64 i) { target[to + i] = value; });
        });
}

/// Each element inside of the last dimension is a constant number of elements after the previous one.
template <class T>
void copy_strided(const Exec& exec, const IndexMap& map, i64 rows, const T* x, T* y)
{
    const MapDim last = map.dims[map.rank - 1];
    for_tiles(
        exec, "index_copy", rows, last.out, KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            const MapPlace place = place_of(map, map.rank - 1, r);
            const i64 in = last.in_stride, out = last.out_stride;
            const T* const from = x + place.from + a * in;
            T* const to = y + place.to + a * out;
            if (out != 1)
                row.each(b - a, [=](i64 i) { to[i * out] = from[i * in]; });
            else if (in != 0)
                row.each(b - a, [=](i64 i) { to[i] = from[i * in]; });
            else
                row.each(b - a, [=](i64 i) { to[i] = *from; }); // a broadcast
        });
}

template <class T>
void copy_elements(const Exec& exec, const IndexMap& map, i64 count, T value, const T* x, T* y)
{
    for_blocks(
        exec, "index_copy", count, KOKKOS_LAMBDA(i64 i) {
            const MapPlace place = place_of(map, map.rank, i);
            y[place.to] = place.inside ? x[place.from] : value;
        });
}

IndexMap contiguous(std::span<const i64> out)
{
    TRV_CHECK(out.size() <= most_dims, "a tensor has ", out.size(), " dimensions; at most ", most_dims);
    IndexMap map;
    map.rank = static_cast<int>(out.size());
    i64 stride = 1;
    for (std::size_t d = out.size(); d-- > 0; stride *= out[d])
        map.dims[d] = {out[d], stride, out[d], stride, 1, 0, 1};
    return map;
}

} // namespace

template <class T>
void index_copy(const Exec& exec, const IndexMap& map, double value, const T* x, T* y)
{
    i64 count = 1;
    for (int d = 0; d < map.rank; ++d)
        count *= map.dims[d].out;
    if (count == 0)
        return;
    const Simplified simple = simplified(map);
    const MapDim& last = simple.map.dims[simple.map.rank - 1];
    const T filling = static_cast<T>(static_cast<Acc<T>>(value));
    bool inside = true;
    for (int d = 0; d < simple.map.rank; ++d)
        inside = inside && is_affine(simple.map.dims[d]);
    if (last.out >= least_run && last.out_stride == 1 && last.in_stride == 1 && last.step == 1 &&
        last.base == 1)
        copy_runs(exec, simple.map, count / last.out, filling, x + simple.offset, y);
    else if (last.out >= least_run && inside)
        copy_strided(exec, simple.map, count / last.out, x + simple.offset, y);
    else
        copy_elements(exec, simple.map, count, filling, x + simple.offset, y);
}

IndexMap merged(const IndexMap& broadcast) { return simplified(broadcast).map; }

bool has_long_runs(const IndexMap& map) { return map.dims[map.rank - 1].out >= least_run; }

template <class T>
void spread(const IndexMap& map, i64 begin, i64 n, const T* x, T* y)
{
    const MapDim& last = map.dims[map.rank - 1];
    i64 row = begin / last.out, column = begin % last.out;
    for (i64 done = 0; done < n; ++row, column = 0) {
        const i64 width = std::min(last.out - column, n - done);
        const T* const from = x + place_of(map, map.rank - 1, row).from + column * last.in_stride;
        T* const to = y + done;
        if (last.in_stride == 0)
            std::fill_n(to, width, *from);
        else
            for (i64 i = 0; i < width; ++i)
                to[i] = from[i * last.in_stride];
        done += width;
    }
}

IndexMap transpose_map(std::span<const i64> in, std::span<const i64> dims)
{
    const IndexMap operand = contiguous(in);
    i64 out[most_dims];
    for (std::size_t d = 0; d < dims.size(); ++d)
        out[d] = in[static_cast<std::size_t>(dims[d])];
    IndexMap map = contiguous({out, dims.size()});
    for (std::size_t d = 0; d < dims.size(); ++d)
        map.dims[d].in_stride = operand.dims[dims[d]].in_stride;
    return map;
}

IndexMap broadcast_map(std::span<const i64> in, std::span<const i64> dims, std::span<const i64> out)
{
    const IndexMap operand = contiguous(in);
    IndexMap map = contiguous(out);
    for (std::size_t d = 0; d < out.size(); ++d) {
        map.dims[d].in = 1;
        map.dims[d].in_stride = map.dims[d].step = 0;
    }
    for (std::size_t d = 0; d < in.size(); ++d)
        if (in[d] != 1) {
            map.dims[dims[d]].in = in[d];
            map.dims[dims[d]].in_stride = operand.dims[d].in_stride;
            map.dims[dims[d]].step = 1;
        }
    return map;
}

IndexMap slice_map(std::span<const i64> in, std::span<const i64> start, std::span<const i64> limit,
                   std::span<const i64> stride)
{
    const IndexMap operand = contiguous(in);
    i64 out[most_dims];
    for (std::size_t d = 0; d < in.size(); ++d)
        out[d] = ceil_div(std::max<i64>(0, limit[d] - start[d]), stride[d]);
    IndexMap map = contiguous({out, in.size()});
    for (std::size_t d = 0; d < in.size(); ++d) {
        map.dims[d].in = in[d];
        map.dims[d].in_stride = operand.dims[d].in_stride;
        map.dims[d].step = stride[d];
        map.dims[d].low = -start[d];
    }
    return map;
}

IndexMap pad_map(std::span<const i64> in, std::span<const i64> low, std::span<const i64> high,
                 std::span<const i64> interior)
{
    const IndexMap operand = contiguous(in);
    i64 out[most_dims];
    for (std::size_t d = 0; d < in.size(); ++d)
        out[d] = std::max<i64>(0, low[d] + in[d] + std::max<i64>(0, in[d] - 1) * interior[d] + high[d]);
    IndexMap map = contiguous({out, in.size()});
    for (std::size_t d = 0; d < in.size(); ++d) {
        map.dims[d].in = in[d];
        map.dims[d].in_stride = operand.dims[d].in_stride;
        map.dims[d].low = low[d];
        map.dims[d].base = interior[d] + 1;
    }
    return map;
}

IndexMap reverse_map(std::span<const i64> in, std::span<const i64> dims)
{
    IndexMap map = contiguous(in);
    for (const i64 d : dims) {
        map.dims[d].step = -1;
        map.dims[d].low = -(in[static_cast<std::size_t>(d)] - 1);
    }
    return map;
}

IndexMap concatenate_map(std::span<const i64> in, int dim, i64 whole)
{
    i64 out[most_dims];
    std::copy(in.begin(), in.end(), out);
    out[dim] = whole;
    const IndexMap result = contiguous({out, in.size()});
    IndexMap map = contiguous(in);
    for (int d = 0; d < dim; ++d)
        map.dims[d].out_stride = result.dims[d].out_stride;
    return map;
}

TRV_FOR_TENSOR(index_copy)
TRV_FOR_TENSOR(spread)

} // namespace trivium::kernels
