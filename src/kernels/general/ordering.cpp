#include "kernels/general/ordering.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/general/combine.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

namespace {

/// The order of a line: by key, NaN last, then by index.
template <class T>
struct KeyOrder {
    const T* keys;
    i64 stride;
    bool descending;

    TRV_HOST_DEVICE bool operator()(std::int32_t i, std::int32_t j) const
    {
        const auto a = static_cast<Acc<T>>(keys[i * stride]), b = static_cast<Acc<T>>(keys[j * stride]);
        if (is_nan(a) || is_nan(b))
            return is_nan(a) == is_nan(b) ? i < j : is_nan(b);
        if (a == b)
            return i < j;
        return descending ? a > b : a < b;
    }
};

/// A heap of indices whose root is the last one in the order, over every stride-th element of `at`.
struct IndexHeap {
    std::int32_t* at;
    i64 stride;

    TRV_HOST_DEVICE std::int32_t& operator[](i64 i) const { return at[i * stride]; }

    /// Puts `item` at the root of a heap of n whose root is free.
    template <class Before>
    TRV_HOST_DEVICE void sink(i64 root, i64 n, std::int32_t item, const Before& before) const
    {
        i64 hole = root;
        for (i64 child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
            if (child + 1 < n && before((*this)[child], (*this)[child + 1]))
                ++child;
            if (!before(item, (*this)[child]))
                break;
            (*this)[hole] = (*this)[child];
            hole = child;
        }
        (*this)[hole] = item;
    }
    template <class Before>
    TRV_HOST_DEVICE void build(i64 n, const Before& before) const
    {
        for (i64 i = n / 2 - 1; i >= 0; --i)
            sink(i, n, (*this)[i], before);
    }
    /// Sorts a heap.
    template <class Before>
    TRV_HOST_DEVICE void sort(i64 n, const Before& before) const
    {
        for (i64 last = n - 1; last > 0; --last) {
            const std::int32_t item = (*this)[last];
            (*this)[last] = (*this)[0];
            sink(0, last, item, before);
        }
    }
};

/// Running sums of `width` <= W neighbouring lines.
template <int W, class T>
TRV_HOST_DEVICE void run_sums(i64 n, i64 step, int width, const T* x, T* y)
{
    using A = Acc<T>;
    A sum[W];
    for (int j = 0; j < W; ++j)
        sum[j] = 0;
    for (i64 i = 0; i < n; ++i)
        for (int j = 0; j < width; ++j) {
            sum[j] = plus(sum[j], static_cast<A>(x[i * step + j]));
            y[i * step + j] = static_cast<T>(sum[j]);
        }
}

template <int W, class T>
void cumsum_columns(const Exec& exec, const Lines& lines, bool backwards, const T* x, T* y)
{
    const i64 n = lines.n, inner = lines.inner, tiles = ceil_div(inner, W);
    const i64 step = backwards ? -inner : inner, first = backwards ? (n - 1) * inner : 0;
    for_blocks<loops_per_row>(
        exec, "cumsum", lines.outer * tiles, KOKKOS_LAMBDA(i64 i) {
            const i64 column = i % tiles * W, width = inner - column < W ? inner - column : W;
            const i64 at = i / tiles * n * inner + first + column;
            run_sums<W>(n, step, static_cast<int>(width), x + at, y + at);
        });
}

} // namespace

template <class T>
void sort_order(const Exec& exec, const Lines& lines, bool descending, const T* keys, std::int32_t* order)
{
    TRV_CHECK(lines.n <= INT32_MAX, "sort: ", lines.n, " elements along the dimension");
    const i64 n = lines.n, inner = lines.inner;
    for_blocks<loops_per_row>(
        exec, "sort_order", n == 0 ? 0 : lines.outer * inner, KOKKOS_LAMBDA(i64 line) {
            const i64 at = line / inner * n * inner + line % inner;
            const KeyOrder<T> before{keys + at, inner, descending};
            const IndexHeap heap{order + at, inner};
            for (i64 i = 0; i < n; ++i)
                heap[i] = static_cast<std::int32_t>(i);
            heap.build(n, before);
            heap.sort(n, before);
        });
}

template <class T>
void take_along(const Exec& exec, const Lines& lines, const T* x, const std::int32_t* order, T* y)
{
    const i64 n = lines.n, inner = lines.inner;
    for_each_index(
        exec, "take_along", lines.outer * n * inner,
        KOKKOS_LAMBDA(i64 i) { y[i] = x[i / (n * inner) * n * inner + order[i] * inner + i % inner]; });
}

template <class T>
void top_k(const Exec& exec, i64 rows, i64 n, i64 k, i64 first_index, const T* x, T* values,
           std::int32_t* indices)
{
    TRV_CHECK(k <= n && first_index + n <= INT32_MAX, "top_k: ", k, " of ", n, " elements from ", first_index,
              " on");
    for_blocks<loops_per_row>(
        exec, "top_k", k == 0 ? 0 : rows, KOKKOS_LAMBDA(i64 r) {
            const KeyOrder<T> before{x + r * n, 1, true};
            const IndexHeap heap{indices + r * k, 1};
            for (i64 i = 0; i < k; ++i)
                heap[i] = static_cast<std::int32_t>(i);
            heap.build(k, before);
            for (i64 i = k; i < n; ++i)
                if (before(static_cast<std::int32_t>(i), heap[0]))
                    heap.sink(0, k, static_cast<std::int32_t>(i), before);
            heap.sort(k, before);
            for (i64 i = 0; i < k; ++i) {
                values[r * k + i] = x[r * n + heap[i]];
                heap[i] += static_cast<std::int32_t>(first_index);
            }
        });
}

template <class T>
void cumsum(const Exec& exec, const Lines& lines, bool backwards, const T* x, T* y)
{
    if (lines.inner == 1)
        cumsum_columns<1>(exec, lines, backwards, x, y);
    else
        cumsum_columns<columns_at_once>(exec, lines, backwards, x, y);
}

TRV_FOR_TENSOR(sort_order)
TRV_FOR_TENSOR(take_along)
TRV_FOR_TENSOR(top_k)
TRV_FOR_TENSOR(cumsum)

} // namespace trivium::kernels
