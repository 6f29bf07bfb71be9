#pragma once
// Parallel loops on the host: threads over rows, plain vectorised loops inside a row. The threads are those
// of Kokkos' parallel host space, or OpenMP's where Kokkos has none (threads.hpp). device/row_parallel.hpp
// has the same names with Kokkos teams.
//
// The partition never changes a result: each row is computed by one thread, in a fixed order.
#include "base/check.hpp"
#include "kernels/exec.hpp"
#include "kernels/values.hpp"
#include "threads.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

// Kernel loops may write where they read, but only at the same index: iterations are independent.
#ifdef __clang__
#define TRV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TRV_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace trivium::kernels {
inline namespace on_host { // separate from on_teams: tests link both

template <class T, int arrays>
struct Kept;

/// One row, processed by one thread.
class Row {
public:
    /// f(i) for i in [0, n), independent of each other.
    template <class F>
    void each(i64 n, F f) const
    {
        TRV_INDEPENDENT
        for (i64 i = 0; i < n; ++i)
            f(i);
    }

    /// to[i] = f(in[i]...) for i in [0, n); f takes Acc<In>... and returns a number, or Values if `to` is
    /// Targets. Each target may be one of the inputs.
    template <class F, class To, class... In>
    void map(i64 n, F f, To to, const In*... in) const
    {
        map_into(n, f, targets_of(to), in...);
    }

    /// Arrays for several loops; a device may hold them in registers.
    template <class T, class... Same>
    Kept<T, 1 + static_cast<int>(sizeof...(Same))> keep(i64 n, const T* first, const Same*... more) const
    {
        return {*this, n, {first, more...}};
    }

    /// map(), then keep() of its result.
    template <class F, class T, class... In>
    Kept<T, 1> keep_map(i64 n, F f, T* to, const In*... in) const
    {
        map(n, f, to, in...);
        return {*this, n, {to}};
    }

    /// to[i] = from[i], bit for bit.
    template <class T>
    void copy(i64 n, const T* from, T* to) const
    {
        each(n, [=](i64 i) { to[i] = from[i]; });
    }

    /// Sum of f(i): `lanes` partial sums, then a tree, so that the order does not depend on the vector width.
    template <class A, class F>
    A sum(i64 n, F f) const
    {
        A lane[lanes] = {};
        const i64 whole = n / lanes * lanes;
        for (i64 i = 0; i < whole; i += lanes)
            for (i64 j = 0; j < lanes; ++j)
                lane[j] += f(i + j);
        for (i64 j = 0; j < n - whole; ++j)
            lane[j] += f(whole + j);
        for (int width = lanes / 2; width > 0; width /= 2)
            for (int j = 0; j < width; ++j)
                lane[j] += lane[j + width];
        return lane[0];
    }

    /// Sum of f(in[i]...).
    template <class A, class F, class First, class... In>
    A sum(i64 n, F f, const First* first, const In*... in) const
    {
        return sum<A>(
            n, [=](i64 i) { return f(static_cast<Acc<First>>(first[i]), static_cast<Acc<In>>(in[i])...); });
    }

    /// Sum of a few f(i), sequentially.
    template <class A, class F>
    A total(i64 n, F f) const
    {
        A sum = 0;
        for (i64 i = 0; i < n; ++i)
            sum += f(i);
        return sum;
    }

    /// Maximum of f(i); -inf for n = 0.
    template <class A, class F>
    A max(i64 n, F f) const
    {
        A lane[lanes];
        for (int j = 0; j < lanes; ++j)
            lane[j] = -std::numeric_limits<A>::infinity();
        const i64 whole = n / lanes * lanes;
        for (i64 i = 0; i < whole; i += lanes)
            for (i64 j = 0; j < lanes; ++j) {
                const A value = f(i + j);
                lane[j] = value > lane[j] ? value : lane[j];
            }
        for (i64 j = 0; j < n - whole; ++j)
            lane[j] = std::max(lane[j], A(f(whole + j)));
        return *std::max_element(lane, lane + lanes);
    }

    /// All f(i) combined by `join`, in an order that depends only on n. `none`: the identity of `join`, the
    /// result for n = 0.
    template <class A, class F, class Join>
    A fold(i64 n, A none, F f, Join join) const
    {
        A lane[lanes];
        for (int j = 0; j < lanes; ++j)
            lane[j] = none;
        const i64 whole = n / lanes * lanes;
        for (i64 i = 0; i < whole; i += lanes)
            for (i64 j = 0; j < lanes; ++j)
                lane[j] = join(lane[j], f(i + j));
        for (i64 j = 0; j < n - whole; ++j)
            lane[j] = join(lane[j], f(whole + j));
        for (int width = lanes / 2; width > 0; width /= 2)
            for (int j = 0; j < width; ++j)
                lane[j] = join(lane[j], lane[j + width]);
        return lane[0];
    }

    /// Calls f once per row.
    template <class F>
    void single(F f) const
    {
        f();
    }

    /// Makes writes of the row visible to all its threads.
    void sync() const {}

private:
    template <class F, class T, int outputs, class... In>
    static void map_into(i64 n, F f, Targets<T, outputs> to, const In*... in)
    {
        TRV_INDEPENDENT
        for (i64 i = 0; i < n; ++i) {
            const auto values = f(static_cast<Acc<In>>(in[i])...);
            for (int k = 0; k < outputs; ++k)
                to.of[k][i] = static_cast<T>(value_of(values, k));
        }
    }

    static constexpr int lanes = 32;
};

/// Result of Row::keep(). A loop passes f the elements of these arrays before those of `more`.
template <class T, int arrays>
struct Kept {
    Row row;
    i64 n;
    const T* in[arrays];

    template <class F>
    Acc<T> sum(F f) const
    {
        return sum_of(std::make_index_sequence<arrays>(), f);
    }
    /// `to` may be one of the arrays; then no other loop over them may follow.
    template <class F, class... More>
    void map(F f, T* to, const More*... more) const
    {
        map_of(std::make_index_sequence<arrays>(), f, to, more...);
    }

private:
    template <std::size_t... k, class F>
    Acc<T> sum_of(std::index_sequence<k...>, F f) const
    {
        return row.sum<Acc<T>>(n, f, in[k]...);
    }
    template <std::size_t... k, class F, class... More>
    void map_of(std::index_sequence<k...>, F f, T* to, const More*... more) const
    {
        row.map(n, f, to, in[k]..., more...);
    }
};

/// Calls f without inlining it. Of an inlined body the compiler makes several versions (peeled, unrolled, one
/// per thread count), which it may contract and reassociate differently: bits would depend on the partition.
template <class F, class... Args>
[[gnu::noinline]] void call_apart(const F& f, Args... args)
{
    f(args...);
}

/// f(begin, end) on each thread, with its range of [0, n), split at multiples of `grain`.
template <class F>
void for_parts(const Exec& exec, const char* label, i64 n, i64 grain, F f)
{
    if (n <= 0)
        return;
    const i64 grains = ceil_div(n, grain);
    on_threads(label, static_cast<int>(std::min<i64>(exec.threads, grains)), [&](i64 self, i64 count) {
        const i64 begin = grains * self / count * grain,
                  end = std::min(grains * (self + 1) / count * grain, n);
        if (begin < end)
            f(begin, end);
    });
}

/// Neighbouring elements that one iteration of each() should compute together, if each element takes a loop.
inline constexpr int columns_at_once = 16;
/// Iterations of each() per row, if each iteration takes a loop.
inline constexpr int loops_per_row = 4;

/// f(row, r) for r in [0, rows). Only a device uses the argument without a name: the elements of T in a row.
template <class T, class F>
void for_rows(const Exec& exec, const char* label, i64 rows, i64, F f)
{
    for_parts(exec, label, rows, 1, [&](i64 begin, i64 end) {
        for (i64 r = begin; r < end; ++r)
            call_apart(f, Row(), r);
    });
}

/// f(i) for i in [0, n), independent of each other.
template <class F>
void for_each_index(const Exec& exec, const char* label, i64 n, F f)
{
    const auto part = [&](i64 begin, i64 end) {
        const F local = f;
        TRV_INDEPENDENT
        for (i64 i = begin; i < end; ++i)
            local(i);
    };
    for_parts(exec, label, n, 1024, [&](i64 begin, i64 end) { call_apart(part, begin, end); });
}

/// Row::map() over [0, n) by all threads.
template <class F, class To, class... In>
void map(const Exec& exec, const char* label, i64 n, F f, To to, const In*... in)
{
    const auto part = [&](i64 begin, i64 end) { Row().map(end - begin, f, to + begin, (in + begin)...); };
    for_parts(exec, label, n, 1024, [&](i64 begin, i64 end) { call_apart(part, begin, end); });
}

/// store(c, sum over r of f(r, in[r, c]...)) for c in [0, columns): sums of 64 rows each, which are then
/// added. `apart`: elements between rows.
template <class A, class F, class Store, class... In>
void for_columns(const Exec& exec, const char* label, i64 rows, i64 columns, i64 apart, F f, Store store,
                 const In*... in)
{
    constexpr i64 width = 128, depth = 64;
    const auto sum_block = [&](i64 c0, i64 n) {
        A total[width] = {}, part[width];
        for (i64 r0 = 0; r0 < rows; r0 += depth) {
            std::fill_n(part, width, A(0));
            for (i64 r = r0; r < std::min(rows, r0 + depth); ++r)
                for (i64 c = 0; c < n; ++c)
                    part[c] += f(r, static_cast<Acc<In>>(in[r * apart + c0 + c])...);
            for (i64 c = 0; c < n; ++c)
                total[c] += part[c];
        }
        for (i64 c = 0; c < n; ++c)
            store(c0 + c, total[c]);
    };
    for_parts(exec, label, ceil_div(columns, width), 1, [&](i64 begin, i64 end) {
        for (i64 block = begin; block < end; ++block)
            call_apart(sum_block, block * width, std::min(width, columns - block * width));
    });
}

/// Number of workers in for_tasks; each has its own scratch.
inline i64 task_workers(int threads, i64 tasks) { return std::max<i64>(1, std::min<i64>(threads, tasks)); }

/// f(row, task, worker) for task in [0, tasks), scheduled dynamically; worker < workers.
template <class F>
void for_tasks(const Exec&, const char* label, i64 tasks, i64 workers, F f)
{
    std::atomic<i64> next{0};
    on_threads(label, static_cast<int>(workers), [&](i64 worker, i64) {
        for (i64 task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            call_apart(f, Row(), task, worker);
    });
}

} // namespace on_host
} // namespace trivium::kernels
