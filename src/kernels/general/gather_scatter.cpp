#include "kernels/general/gather_scatter.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

/// What a kernel needs of a GatherShape. "Out" is the result of a gather, or the updates of a scatter.
struct WindowPlan {
    int rank = 0; ///< of out
    i64 out[most_dims], out_stride[most_dims];
    i64 index_step[most_dims]; ///< in the indices, per dimension of out; 0 for dimensions of the window

    int operand_rank = 0;
    i64 extent[most_dims], stride[most_dims];
    int out_dim[most_dims];     ///< the dimension of out that moves in this one, or -1
    i64 shift[most_dims];       ///< local place of a window that starts at 0
    i64 most[most_dims];        ///< the last start at which the window is inside
    i64 index_place[most_dims]; ///< of the start in an index vector, or -1
    bool clamps = true;

    i64 operand_count() const { return product_of(extent, operand_rank); }
    i64 out_count() const { return product_of(out, rank); }
    /// The operand's dimension that dimension d of out moves in, or -1.
    int operand_dim(int d) const
    {
        for (int k = 0; k < operand_rank; ++k)
            if (out_dim[k] == d)
                return k;
        return -1;
    }
};

/// Dimensions of the updates.
struct UpdateDims {
    int count = 0;
    int of[most_dims];
};

namespace {

WindowPlan plan_of(const GatherShape& shape, bool clamps)
{
    WindowPlan plan;
    plan.clamps = shape.clamps.value_or(clamps);
    plan.operand_rank = shape.rank;
    const int index_dims = shape.index_rank - (shape.index_dim < shape.index_rank ? 1 : 0);
    plan.rank = index_dims + shape.offset_dims.count;
    TRV_CHECK(shape.rank <= most_dims && shape.index_rank <= most_dims && plan.rank <= most_dims,
              "gather: operand of ", shape.rank, " dimensions, indices of ", shape.index_rank, ", result of ",
              plan.rank, "; at most ", most_dims);
    i64 index_stride[most_dims];
    put_strides(shape.indices, shape.index_rank, index_stride);
    const i64 vector_stride = shape.index_dim < shape.index_rank ? index_stride[shape.index_dim] : 0;

    put_strides(shape.extent, shape.rank, plan.stride);
    for (int d = 0; d < shape.rank; ++d) {
        plan.extent[d] = shape.extent[d];
        plan.out_dim[d] = -1;
        plan.index_place[d] = -1;
        plan.most[d] = shape.whole[d] - shape.sizes[d];
        plan.shift[d] = shape.batch_dims.contains(d) ? 0 : shape.slice_begin[d] - shape.begin[d];
    }
    for (int k = 0; k < shape.index_map.count; ++k)
        plan.index_place[shape.index_map.of[k]] = k * vector_stride;

    int index_dim = 0, window_dim = 0; // the next ones
    for (int d = 0; d < plan.rank; ++d) {
        if (shape.offset_dims.contains(d)) {
            while (shape.collapsed_dims.contains(window_dim) || shape.batch_dims.contains(window_dim))
                ++window_dim;
            TRV_CHECK(window_dim < shape.rank, "gather: more offset dimensions than the window has");
            plan.out[d] = shape.slice_extent[window_dim];
            plan.index_step[d] = 0;
            plan.out_dim[window_dim++] = d;
        } else {
            index_dim += index_dim == shape.index_dim ? 1 : 0;
            plan.out[d] = shape.indices[index_dim];
            plan.index_step[d] = index_stride[index_dim];
            for (int b = 0; b < shape.index_batch_dims.count; ++b)
                if (shape.index_batch_dims.of[b] == index_dim)
                    plan.out_dim[shape.batch_dims.of[b]] = d;
            ++index_dim;
        }
    }
    put_strides(plan.out, plan.rank, plan.out_stride);
    return plan;
}

/// The local place of an element of out in the operand: its offset, and whether it is inside in every
/// dimension except `free`.
struct WindowPlace {
    i64 offset = 0;
    bool inside = true;
    i64 free = 0; ///< the place in the dimension `free`
};
TRV_HOST_DEVICE WindowPlace window_place(const WindowPlan& plan, const i64* coordinates,
                                         const std::int32_t* indices, int free)
{
    for (int d = 0; d < plan.rank; ++d)
        indices += coordinates[d] * plan.index_step[d];
    WindowPlace place;
    for (int d = 0; d < plan.operand_rank; ++d) {
        i64 at = plan.shift[d] + (plan.out_dim[d] >= 0 ? coordinates[plan.out_dim[d]] : 0);
        if (plan.index_place[d] >= 0) {
            const i64 start = indices[plan.index_place[d]];
            at += plan.clamps ? clamped(start, 0, plan.most[d]) : start;
        }
        place.offset += at * plan.stride[d];
        if (d == free)
            place.free = at;
        else
            place.inside = place.inside && at >= 0 && at < plan.extent[d];
    }
    return place;
}

TRV_HOST_DEVICE void coordinates_of(const WindowPlan& plan, int dims, i64 i, i64* coordinates)
{
    for (int d = plan.rank - 1; d >= dims; --d)
        coordinates[d] = 0;
    for (int d = dims - 1; d >= 0; --d)
        coordinates[d] = take_last(i, plan.out[d]);
}

/// The last dimension of the result is a long window in the operand's last dimension.
template <class T>
void gather_runs(const Exec& exec, const WindowPlan& plan, i64 rows, const T* x, const std::int32_t* indices,
                 T* y)
{
    const i64 columns = plan.out[plan.rank - 1];
    for_tiles(
        exec, "gather", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            i64 coordinates[most_dims];
            coordinates_of(plan, plan.rank - 1, r, coordinates);
            const int last = plan.operand_rank - 1;
            const WindowPlace place = window_place(plan, coordinates, indices, last);
            const i64 first = place.inside ? clamped(-place.free, a, b) : b;
            const i64 end = place.inside ? clamped(plan.extent[last] - place.free, first, b) : b;
            T* const to = y + r * columns;
            row.each(first - a, [=](i64 i) { to[a + i] = T(Acc<T>(0)); });
            row.copy(end - first, x + place.offset + first, to + first);
            row.each(b - end, [=](i64 i) { to[end + i] = T(Acc<T>(0)); });
        });
}

template <class T, class Join>
void scatter_updates(const Exec& exec, const WindowPlan& plan, Join join, const std::int32_t* indices,
                     const T* updates, T* y)
{
    using A = Acc<T>;
    // Updates that differ in an "apart" dimension never meet: it moves in a dimension that is not indexed.
    // The last one of the window is the columns: these share their index vector.
    UpdateDims apart, serial;
    i64 rows = 1, steps = 1;
    int inner = -1;
    for (int d = 0; d < plan.rank; ++d) {
        const int dim = plan.operand_dim(d);
        if (dim < 0 || plan.index_place[dim] >= 0) {
            serial.of[serial.count++] = d;
            steps *= plan.out[d];
            continue;
        }
        rows *= plan.out[d];
        int kept = d;
        if (plan.index_step[d] == 0)
            std::swap(inner, kept);
        if (kept >= 0)
            apart.of[apart.count++] = kept;
    }
    const int free = inner >= 0 ? plan.operand_dim(inner) : -1;
    const i64 columns = inner >= 0 ? plan.out[inner] : 1;
    for_tiles(
        exec, "scatter", rows / columns, columns, KOKKOS_LAMBDA(const Row& row, i64 r, i64 a, i64 b) {
            i64 coordinates[most_dims];
            if (inner >= 0)
                coordinates[inner] = 0;
            i64 from_apart = 0;
            for (int k = apart.count - 1; k >= 0; --k) {
                const int d = apart.of[k];
                coordinates[d] = take_last(r, plan.out[d]);
                from_apart += coordinates[d] * plan.out_stride[d];
            }
            const i64 step_from = inner >= 0 ? plan.out_stride[inner] : 0;
            const i64 step_to = inner >= 0 ? plan.stride[free] : 0;
            for (i64 s = 0; s < steps; ++s) {
                i64 index = s, from = from_apart;
                for (int k = serial.count - 1; k >= 0; --k) {
                    const int d = serial.of[k];
                    coordinates[d] = take_last(index, plan.out[d]);
                    from += coordinates[d] * plan.out_stride[d];
                }
                const WindowPlace place = window_place(plan, coordinates, indices, free);
                if (!place.inside)
                    continue;
                // On a device each thread has the same columns in every step.
                const i64 first = inner >= 0 ? clamped(-place.free, a, b) : a;
                const i64 end = inner >= 0 ? clamped(plan.extent[free] - place.free, first, b) : b;
                const T* const in = updates + from + first * step_from;
                T* const to = y + place.offset + first * step_to;
                row.each(end - first, [=](i64 i) {
                    T& element = to[i * step_to];
                    element =
                        static_cast<T>(join(static_cast<A>(element), static_cast<A>(in[i * step_from])));
                });
            }
        });
}

} // namespace

template <class T>
void gather(const Exec& exec, const GatherShape& shape, const T* x, const std::int32_t* indices, T* y)
{
    const WindowPlan plan = plan_of(shape, true);
    const i64 count = plan.out_count();
    if (count == 0)
        return;
    constexpr i64 least_run = 16;
    const int last = plan.rank - 1;
    if (plan.rank > 0 && plan.out[last] >= least_run && plan.operand_dim(last) == plan.operand_rank - 1 &&
        plan.index_step[last] == 0)
        return gather_runs(exec, plan, count / plan.out[last], x, indices, y);
    for_blocks(
        exec, "gather", count, KOKKOS_LAMBDA(i64 i) {
            i64 coordinates[most_dims];
            coordinates_of(plan, plan.rank, i, coordinates);
            const WindowPlace place = window_place(plan, coordinates, indices, -1);
            y[i] = place.inside ? x[place.offset] : T(Acc<T>(0));
        });
}

template <class T>
void scatter(const Exec& exec, const GatherShape& shape, Combine how, bool from_operand, const T* x,
             const std::int32_t* indices, const T* updates, T* y)
{
    const WindowPlan plan = plan_of(shape, false);
    const i64 elements = plan.operand_count();
    with_combiner(how, [&](auto join) {
        if (from_operand && x != y) {
            copy_array(exec, "scatter", elements, x, y);
        } else if (!from_operand) {
            fill_array(exec, "scatter", elements, static_cast<T>(decltype(join)::template none<Acc<T>>()), y);
        }
        if (elements > 0 && plan.out_count() > 0)
            scatter_updates(exec, plan, join, indices, updates, y);
    });
}

TRV_FOR_TENSOR(gather)
TRV_FOR_TENSOR(scatter)

} // namespace trivium::kernels
