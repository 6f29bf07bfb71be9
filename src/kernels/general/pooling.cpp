#include "kernels/general/pooling.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

/// The dimensions in which a window has more than one element.
struct WindowDims {
    int count = 0;
    int of[most_dims] = {};
    i64 elements = 1; ///< of a window
};

/// Strides of a contiguous tensor.
struct PoolStrides {
    i64 of[most_dims] = {};

    PoolStrides(const i64* extents, int rank) { put_strides(extents, rank, of); }
};

namespace {

/// The place of a window's element in one dimension, or -1 outside of the whole tensor.
TRV_HOST_DEVICE i64 element_of(const PoolShape& s, int d, i64 window, i64 t)
{
    const i64 at = window * s.stride[d] - s.low[d] + t * s.dilation[d];
    if (at < 0 || at % s.base[d] != 0)
        return -1;
    return at / s.base[d] < s.in[d] ? at / s.base[d] : -1;
}

WindowDims window_dims(const PoolShape& shape)
{
    WindowDims dims;
    for (int d = 0; d < shape.rank; ++d) {
        dims.elements *= shape.window[d];
        if (shape.window[d] != 1)
            dims.of[dims.count++] = d;
    }
    return dims;
}

/// The offset in x of element t of the window at `windows` (its index per dimension), or -1 outside of the
/// whole tensor. `fixed` is the offset of the dimensions with one element per window.
TRV_HOST_DEVICE i64 window_offset(const PoolShape& s, const WindowDims& dims, const i64* windows, i64 t,
                                  const i64* begin, const PoolStrides& strides, i64 fixed)
{
    i64 offset = fixed;
    for (int k = dims.count - 1; k >= 0; --k) {
        const int d = dims.of[k];
        const i64 at = element_of(s, d, windows[d], take_last(t, s.window[d]));
        if (at < 0)
            return -1;
        offset += (at - begin[d]) * strides.of[d];
    }
    return offset;
}

/// The offset of the dimensions with one element per window, or -1.
TRV_HOST_DEVICE i64 fixed_offset(const PoolShape& s, const i64* windows, const i64* begin,
                                 const PoolStrides& strides)
{
    i64 offset = 0;
    for (int d = 0; d < s.rank; ++d)
        if (s.window[d] == 1) {
            const i64 at = element_of(s, d, windows[d], 0);
            if (at < 0)
                return -1;
            offset += (at - begin[d]) * strides.of[d];
        }
    return offset;
}

/// The offset in x of a window's first extremum, or -1 if no element is inside.
template <bool largest, class T>
TRV_HOST_DEVICE i64 first_extremum(const PoolGradShape& shape, const WindowDims& dims, const i64* windows,
                                   const PoolStrides& strides, const T* x)
{
    const PoolShape& s = shape.windows;
    const i64 fixed = fixed_offset(s, windows, shape.x_begin, strides);
    i64 best = -1;
    Acc<T> top = 0;
    for (i64 t = 0; fixed >= 0 && t < dims.elements; ++t) {
        const i64 offset = window_offset(s, dims, windows, t, shape.x_begin, strides, fixed);
        if (offset < 0)
            continue;
        const auto value = static_cast<Acc<T>>(x[offset]);
        const bool better = (largest ? value > top : value < top) || is_nan(value);
        if (best < 0 || (better && !is_nan(top))) {
            best = offset;
            top = value;
        }
    }
    return best;
}

template <bool largest, class T>
void extremum_grad(const Exec& exec, const PoolGradShape& shape, const T* dy, const T* x, T* dx)
{
    const PoolShape& whole = shape.windows;
    const WindowDims dims = window_dims(whole);
    const PoolStrides x_strides(shape.x_extent, whole.rank), dy_strides(shape.dy_extent, whole.rank);
    const PoolGradShape g = shape;
    for_blocks<loops_per_row>(
        exec, "pool_extremum_grad", product_of(shape.dx_extent, whole.rank), KOKKOS_LAMBDA(i64 i) {
            using A = Acc<T>;
            const PoolShape& s = g.windows;
            i64 at[most_dims], windows[most_dims], index = i, here = 0; // here: in x
            for (int d = s.rank - 1; d >= 0; --d) {
                at[d] = take_last(index, g.dx_extent[d]) + g.dx_begin[d];
                here += (at[d] - g.x_begin[d]) * x_strides.of[d];
            }
            A sum = 0;
            // In row-major order of the windows: the place in the window decreases.
            for (i64 back = dims.elements - 1; back >= 0; --back) {
                i64 t = back, from = 0;
                bool is_window = true;
                for (int d = s.rank - 1; d >= 0 && is_window; --d) {
                    const i64 start =
                        at[d] * s.base[d] + s.low[d] - take_last(t, s.window[d]) * s.dilation[d];
                    windows[d] = start / s.stride[d];
                    is_window = start >= 0 && start % s.stride[d] == 0 && windows[d] >= g.dy_begin[d] &&
                                windows[d] < g.dy_begin[d] + g.dy_extent[d];
                    from += (windows[d] - g.dy_begin[d]) * dy_strides.of[d];
                }
                if (is_window && first_extremum<largest>(g, dims, windows, x_strides, x) == here)
                    sum = plus(sum, static_cast<A>(dy[from]));
            }
            dx[i] = static_cast<T>(sum);
        });
}

template <class T, class Join>
void pool_windows(const Exec& exec, const PoolShape& shape, Join join, const T* x, T* y)
{
    const PoolShape s = shape;
    const WindowDims dims = window_dims(s);
    const PoolStrides strides(s.in, s.rank);
    for_blocks<loops_per_row>(
        exec, "pool", product_of(s.out, s.rank), KOKKOS_LAMBDA(i64 i) {
            using A = Acc<T>;
            i64 windows[most_dims], begin[most_dims], index = i;
            for (int d = s.rank - 1; d >= 0; --d) {
                windows[d] = take_last(index, s.out[d]);
                begin[d] = 0;
            }
            const i64 fixed = fixed_offset(s, windows, begin, strides);
            A all = Join::template none<A>();
            for (i64 t = 0; fixed >= 0 && t < dims.elements; ++t) {
                const i64 offset = window_offset(s, dims, windows, t, begin, strides, fixed);
                if (offset >= 0)
                    all = join(all, static_cast<A>(x[offset]));
            }
            y[i] = static_cast<T>(all);
        });
}

} // namespace

template <class T>
void pool(const Exec& exec, const PoolShape& shape, Combine how, const T* x, T* y)
{
    TRV_CHECK(shape.rank <= most_dims && how != Combine::set, "pool: ", shape.rank, " dimensions, combine ",
              static_cast<int>(how));
    with_reduction(how, [&](auto join) { pool_windows(exec, shape, join, x, y); });
}

template <class T>
void pool_extremum_grad(const Exec& exec, const PoolGradShape& shape, Combine how, const T* dy, const T* x,
                        T* dx)
{
    TRV_CHECK(shape.windows.rank <= most_dims, "pool: ", shape.windows.rank, " dimensions");
    if (how == Combine::max)
        extremum_grad<true>(exec, shape, dy, x, dx);
    else
        extremum_grad<false>(exec, shape, dy, x, dx);
}

TRV_FOR_TENSOR(pool)
TRV_FOR_TENSOR(pool_extremum_grad)

} // namespace trivium::kernels
