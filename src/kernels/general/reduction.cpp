#include "kernels/general/reduction.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

/// Dimensions of x with their strides, outermost first.
struct ReduceExtents {
    int count = 0;
    i64 extent[most_dims] = {}, stride[most_dims] = {};

    i64 total() const { return product_of(extent, count); }
    void append(i64 n, i64 s)
    {
        extent[count] = n;
        stride[count++] = s;
    }
    /// The offset of the element with the row-major index i in the first `dims` dimensions.
    TRV_HOST_DEVICE i64 offset_of(int dims, i64 i) const
    {
        i64 offset = 0;
        for (int d = dims - 1; d >= 0; --d)
            offset += take_last(i, extent[d]) * stride[d];
        return offset;
    }
};

struct ReduceGroups {
    ReduceExtents kept, reduced; ///< each with at least one dimension; neighbours of the same kind are merged
    bool last_reduced = false;
};

namespace {

ReduceGroups groups_of(const ReduceShape& shape)
{
    TRV_CHECK(shape.rank <= most_dims, "reduce: ", shape.rank, " dimensions; at most ", most_dims);
    ReduceGroups groups;
    i64 stride = product_of(shape.extents, shape.rank);
    int last = -1; // kind of the last dimension
    for (int d = 0; d < shape.rank; ++d) {
        const i64 extent = shape.extents[d];
        stride = extent == 0 ? 0 : stride / extent;
        if (extent == 1)
            continue;
        ReduceExtents& to = shape.reduced[d] ? groups.reduced : groups.kept;
        if (last == shape.reduced[d]) {
            to.extent[to.count - 1] *= extent;
            to.stride[to.count - 1] = stride;
        } else {
            to.append(extent, stride);
        }
        last = shape.reduced[d];
    }
    groups.last_reduced = last == 1;
    if (groups.kept.count == 0)
        groups.kept.append(1, 0);
    if (groups.reduced.count == 0)
        groups.reduced.append(1, 0);
    return groups;
}

/// The combinations of `width` <= W neighbouring columns: parts of up to 64 elements each, then of those.
template <int W, class T, class Join>
TRV_HOST_DEVICE void combine_columns(const ReduceExtents& over, int width, Join join, const T* x, T* y)
{
    using A = Acc<T>;
    constexpr i64 depth = 64;
    const A none = Join::template none<A>();
    const i64 n = over.extent[over.count - 1], step = over.stride[over.count - 1];
    i64 outer = 1;
    for (int d = 0; d < over.count - 1; ++d)
        outer *= over.extent[d];
    A all[W], part[W];
    for (int j = 0; j < W; ++j)
        all[j] = none;
    for (i64 o = 0; o < outer; ++o) {
        const T* const from = x + over.offset_of(over.count - 1, o);
        for (i64 begin = 0; begin < n; begin += depth) {
            const i64 end = n - begin < depth ? n : begin + depth;
            for (int j = 0; j < W; ++j)
                part[j] = none;
            if (width == W)
                for (i64 i = begin; i < end; ++i)
                    for (int j = 0; j < W; ++j)
                        part[j] = join(part[j], static_cast<A>(from[i * step + j]));
            else
                for (i64 i = begin; i < end; ++i)
                    for (int j = 0; j < width; ++j)
                        part[j] = join(part[j], static_cast<A>(from[i * step + j]));
            for (int j = 0; j < W; ++j)
                all[j] = join(all[j], part[j]);
        }
    }
    for (int j = 0; j < width; ++j)
        y[j] = static_cast<T>(all[j]);
}

/// The reduced dimension that is contiguous is long: a row for each result.
template <class T, class Join>
void reduce_runs(const Exec& exec, const ReduceGroups& groups, i64 results, Join join, const T* x, T* y)
{
    using A = Acc<T>;
    const ReduceExtents kept = groups.kept, over = groups.reduced;
    const i64 run = over.extent[over.count - 1], outer = product_of(over.extent, over.count - 1);
    for_rows<T>(
        exec, "reduce", results, run, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T* const from = x + kept.offset_of(kept.count, r);
            const A none = Join::template none<A>();
            A all = none;
            for (i64 o = 0; o < outer; ++o) {
                const T* const in = from + over.offset_of(over.count - 1, o);
                all = join(all, row.fold(
                                    run, none, [=](i64 i) { return static_cast<A>(in[i]); }, join));
            }
            row.single([=] { y[r] = static_cast<T>(all); });
        });
}

/// A loop for each result, or for W neighbouring ones.
template <int W, class T, class Join>
void reduce_columns(const Exec& exec, const ReduceGroups& groups, i64 results, Join join, const T* x, T* y)
{
    const ReduceExtents kept = groups.kept, over = groups.reduced;
    const i64 columns = W == 1 ? 1 : kept.extent[kept.count - 1], tiles = ceil_div(columns, W);
    const int outer = W == 1 ? kept.count : kept.count - 1;
    for_blocks<loops_per_row>(
        exec, "reduce", results / columns * tiles, KOKKOS_LAMBDA(i64 i) {
            const i64 begin = i % tiles * W, width = columns - begin < W ? columns - begin : W, r = i / tiles;
            combine_columns<W>(over, static_cast<int>(width), join, x + kept.offset_of(outer, r) + begin,
                               y + r * columns + begin);
        });
}

} // namespace

template <class T>
void reduce(const Exec& exec, const ReduceShape& shape, Combine how, const T* x, T* y)
{
    TRV_CHECK(how != Combine::set, "reduce: `set` is only for scatter");
    const ReduceGroups groups = groups_of(shape);
    const i64 results = groups.kept.total();
    constexpr i64 least_run = 64;
    with_reduction(how, [&](auto join) {
        if (results == 0)
            return;
        if (groups.last_reduced && groups.reduced.extent[groups.reduced.count - 1] >= least_run)
            reduce_runs(exec, groups, results, join, x, y);
        else if (groups.last_reduced)
            reduce_columns<1>(exec, groups, results, join, x, y);
        else
            reduce_columns<columns_at_once>(exec, groups, results, join, x, y);
    });
}

TRV_FOR_TENSOR(reduce)

} // namespace trivium::kernels
