#include "kernels/general/pooling.hpp"

#include "kernels/general/windows.hpp"
#include "kernels/instantiate.hpp"

#include <cstdint>

namespace trivium::kernels {

namespace {

/// From the windows of a pool to its elements.
WindowWalk pool_walk(const PoolShape& s)
{
    WindowWalk walk;
    for (int d = 0; d < s.rank; ++d)
        walk.append({.out = s.out[d],
                     .in = s.in[d],
                     .window = s.window[d],
                     .step = s.stride[d],
                     .low = s.low[d],
                     .dilation = s.dilation[d],
                     .base = s.base[d]});
    walk.finish();
    return walk;
}

/// From the windows of dy to the elements of x.
WindowWalk forward_walk(const PoolGradShape& g)
{
    const PoolShape& s = g.windows;
    WindowWalk walk;
    for (int d = 0; d < s.rank; ++d)
        walk.append({.out = g.dy_extent[d],
                     .in = g.x_extent[d],
                     .window = s.window[d],
                     .step = s.stride[d],
                     .low = s.low[d] - g.dy_begin[d] * s.stride[d] + g.x_begin[d] * s.base[d],
                     .dilation = s.dilation[d],
                     .base = s.base[d]});
    walk.finish();
    return walk;
}

/// From the elements of dx to the windows of dy that contain them, in row-major order: element t of such a
/// walk is the window in which the element of dx has the last place but t.
WindowWalk backward_walk(const PoolGradShape& g)
{
    const PoolShape& s = g.windows;
    WindowWalk walk;
    for (int d = 0; d < s.rank; ++d)
        walk.append({.out = g.dx_extent[d],
                     .in = g.dy_extent[d],
                     .window = s.window[d],
                     .step = s.base[d],
                     .low = (s.window[d] - 1) * s.dilation[d] - s.low[d] - g.dx_begin[d] * s.base[d] +
                            g.dy_begin[d] * s.stride[d],
                     .dilation = s.dilation[d],
                     .base = s.stride[d]});
    walk.finish();
    return walk;
}

/// arg[o] = the place in window o of its first extremum, -1 for a window without elements.
template <bool largest, class T>
void find_extrema(const Exec& exec, const WindowWalk& walk, const T* x, std::int32_t* arg)
{
    constexpr int W = windows_at_once;
    const i64 every = walk.every();
    for_windows(
        exec, "pool_extrema", walk, KOKKOS_LAMBDA(i64 row, i64 begin, i64 width, i64 result) {
            Acc<T> top[W], values[W];
            std::int32_t best[W];
            for (int j = 0; j < W; ++j) {
                top[j] = 0;
                best[j] = -1;
            }
            walk_windows(walk, row, begin, width, [&](i64 tap, const WindowHits& hits) {
                const auto place = static_cast<std::int32_t>(tap);
                each_hit(hits, [&](i64 j, i64 source) { values[j] = static_cast<Acc<T>>(x[source]); });
                each_hit(hits, [&](i64 j, i64) { // without loads that keep a loop from vectors
                    const auto value = values[j];
                    // A number that is not in order with the top is NaN, or the top is.
                    const bool later = largest ? !(value <= top[j]) : !(value >= top[j]);
                    const bool takes = (best[j] < 0) | (later & (top[j] == top[j]));
                    top[j] = takes ? value : top[j];
                    best[j] = takes ? place : best[j];
                });
            });
            store_slots(every, width, best, arg + result);
        });
}

/// dx = for each element the sum of dy over the windows whose `arg` it is.
template <class T>
void sum_of_windows(const Exec& exec, const WindowWalk& walk, i64 elements, const T* dy,
                    const std::int32_t* arg, T* dx)
{
    constexpr int W = windows_at_once;
    const i64 every = walk.every();
    for_windows(
        exec, "pool_extremum_grad", walk, KOKKOS_LAMBDA(i64 row, i64 begin, i64 width, i64 result) {
            using A = Acc<T>;
            A sum[W];
            for (int j = 0; j < W; ++j)
                sum[j] = 0;
            walk_windows(walk, row, begin, width, [&](i64 tap, const WindowHits& hits) {
                const auto place = static_cast<std::int32_t>(elements - 1 - tap);
                each_hit(hits, [&](i64 j, i64 source) {
                    const A slope = static_cast<A>(dy[source]);
                    sum[j] = plus(sum[j], arg[source] == place ? slope : A(0));
                });
            });
            store_slots(every, width, sum, dx + result);
        });
}

template <class T, class Join>
void pool_windows(const Exec& exec, const WindowWalk& walk, Join join, const T* x, T* y)
{
    constexpr int W = windows_at_once;
    const i64 every = walk.every();
    for_windows(
        exec, "pool", walk, KOKKOS_LAMBDA(i64 row, i64 begin, i64 width, i64 result) {
            using A = Acc<T>;
            A all[W];
            for (int j = 0; j < W; ++j)
                all[j] = Join::template none<A>();
            walk_windows(walk, row, begin, width, [&](i64, const WindowHits& hits) {
                each_hit(hits, [&](i64 j, i64 source) { all[j] = join(all[j], static_cast<A>(x[source])); });
            });
            store_slots(every, width, all, y + result);
        });
}

} // namespace

template <class T>
void pool(const Exec& exec, const PoolShape& shape, Combine how, const T* x, T* y)
{
    TRV_CHECK(shape.rank <= most_dims && how != Combine::set, "pool: ", shape.rank, " dimensions, combine ",
              static_cast<int>(how));
    const WindowWalk walk = pool_walk(shape);
    with_reduction(how, [&](auto join) { pool_windows(exec, walk, join, x, y); });
}

template <class T>
void pool_extremum_grad(const Exec& exec, const PoolGradShape& shape, Combine how, const T* dy, const T* x,
                        std::int32_t* extrema, T* dx)
{
    const int rank = shape.windows.rank;
    TRV_CHECK(rank <= most_dims, "pool: ", rank, " dimensions");
    const i64 elements = product_of(shape.windows.window, rank);
    TRV_CHECK(elements <= INT32_MAX, "pool: windows of ", elements, " elements");
    const WindowWalk windows = forward_walk(shape);
    if (how == Combine::max)
        find_extrema<true>(exec, windows, x, extrema);
    else
        find_extrema<false>(exec, windows, x, extrema);
    sum_of_windows(exec, backward_walk(shape), elements, dy, extrema, dx);
}

TRV_FOR_TENSOR(pool)
TRV_FOR_TENSOR(pool_extremum_grad)

} // namespace trivium::kernels
