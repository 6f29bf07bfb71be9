#pragma once
// Parallel loops on a device: a team per row or per range of elements. Names and contracts as in
// host/row_parallel.hpp.
//
// Memory bandwidth limits these kernels. So arrays move in packs of 16 bytes, neighbouring threads take
// neighbouring packs, and a thread loads several packs before it uses the first. Arrays that a row needs
// twice stay in registers (Row::keep) if the row is short. Otherwise they are read twice: row_lanes() gives
// long rows so many lanes that few rows share the L1 cache of a multiprocessor.
//
// The order of every sum depends only on sizes and alignment. One thread may work for all lanes of a team, so
// whatever a lane keeps beyond a barrier is in shared memory, or read again.
#include "base/check.hpp"
#include "kernels/device/pack.hpp"
#include "kernels/values.hpp"
#include "team.hpp"

#include <algorithm>
#include <utility>

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

/// An input array, with `ahead` packs being loaded.
template <class T, int width, int ahead>
struct Input {
    using Words = typename Pack<T, width>::Words;
    const T* from;
    Words words[ahead]; ///< packed: separate elements would need more registers

    KOKKOS_FUNCTION void load(int slot, i64 i)
    {
        words[slot] = load_words<static_cast<int>(sizeof(Words))>(from + i);
    }
    KOKKOS_FUNCTION Acc<T> get(int slot, int j) const
    {
        return static_cast<Acc<T>>(Pack<T, width>::of(words[slot]).at[j]);
    }
    KOKKOS_FUNCTION Acc<T> one(i64 i) const { return static_cast<Acc<T>>(from[i]); }
};

/// Packs of each array that a thread loads before it uses the first.
KOKKOS_FUNCTION constexpr int packs_ahead(std::size_t arrays) { return arrays <= 2 ? 4 : 2; }

/// Calls pack(i, slot, ready) for the packs i = self, self + count, …, `ahead` at a time: to load each (ready
/// = false), then to use each (ready = true).
template <int ahead, class F>
KOKKOS_FUNCTION void each_pack(i64 packs, int self, int count, F pack)
{
    TRV_ROLLED
    for (i64 base = self; base < packs; base += static_cast<i64>(ahead) * count) {
        TRV_UNROLL
        for (int u = 0; u < ahead; ++u)
            if (base + static_cast<i64>(u) * count < packs)
                pack(base + static_cast<i64>(u) * count, u, false);
        TRV_UNROLL
        for (int u = 0; u < ahead; ++u)
            if (base + static_cast<i64>(u) * count < packs)
                pack(base + static_cast<i64>(u) * count, u, true);
    }
}

/// Calls f(i) for this thread's elements outside of packs.
template <class F>
KOKKOS_FUNCTION void each_single(i64 n, int width, const Split& split, int self, int count, F f)
{
    TRV_ROLLED
    for (i64 i = self; i < split.head; i += count)
        f(i);
    TRV_ROLLED
    for (i64 i = split.head + split.packs * width + self; i < n; i += count)
        f(i);
}

} // namespace detail

class Row;

/// Arrays of a row that several loops read. If they are whole packs, at most `ahead` of each array per lane,
/// the lanes keep them in registers.
template <class T, int arrays>
struct Kept {
    static constexpr int width = pack_width<T>(), ahead = arrays == 1 ? 4 : 2; // see row_lanes()

    const Row& row;
    i64 n;
    detail::Input<T, width, ahead> in[arrays];
    bool kept; ///< whether `in` holds the packs

    template <class F>
    KOKKOS_FUNCTION Acc<T> sum(F f) const
    {
        return sum_of(std::make_index_sequence<arrays>(), f);
    }
    template <class F, class... More>
    KOKKOS_FUNCTION void map(F f, T* to, const More*... more) const
    {
        map_of(std::make_index_sequence<arrays>(), f, to, more...);
    }

    template <class... More>
    KOKKOS_FUNCTION bool fits(const More*... more) const;
    /// Calls f(slot, i) for this thread's packs in slots [begin, begin + slots), at i. \pre fits()
    template <class F>
    KOKKOS_FUNCTION void each(int begin, int slots, F f) const;
    /// Calls f(slot, i, more...) for this thread's packs, after loading those of `more`. \pre fits()
    template <class F, class... More>
    KOKKOS_FUNCTION void each_with(F f, More... more) const
    {
        constexpr int at_once = 2; // more would need too many registers
        TRV_UNROLL
        for (int begin = 0; begin < ahead; begin += at_once) {
            if constexpr (sizeof...(More) > 0)
                each(begin, at_once, [&](int slot, int i) { (more.load(slot, i), ...); });
            each(begin, at_once, [&](int slot, int i) { f(slot, i, more...); });
        }
    }

private:
    template <std::size_t... k, class F>
    KOKKOS_FUNCTION Acc<T> sum_of(std::index_sequence<k...>, F f) const;
    template <std::size_t... k, class F, class... More>
    KOKKOS_FUNCTION void map_of(std::index_sequence<k...>, F f, T* to, const More*... more) const;
};

/// One row, processed by one team: all its threads make the same calls. Only keep_map() ends with a barrier.
class Row {
public:
    KOKKOS_FUNCTION explicit Row(const Team& team) : team_(team) {}

    KOKKOS_FUNCTION const Team& team() const { return team_; }

    template <class F>
    KOKKOS_FUNCTION void each(i64 n, F f) const
    {
        TRV_ROLLED
        for (i64 i = team_.rank(); i < n; i += team_.size())
            f(i);
    }

    template <class F, class To, class... In>
    KOKKOS_FUNCTION void map(i64 n, F f, To to, const In*... in) const
    {
        map_into(n, f, targets_of(to), in...);
    }

    template <class T, class... Same>
    KOKKOS_FUNCTION Kept<T, 1 + static_cast<int>(sizeof...(Same))> keep(i64 n, const T* first,
                                                                        const Same*... more) const
    {
        constexpr int arrays = 1 + static_cast<int>(sizeof...(Same));
        Kept<T, arrays> all{*this, n, {{first, {}}, {more, {}}...}, false};
        all.kept = all.fits(first, more...);
        if (all.kept)
            all.each(0, all.ahead, [&](int slot, int i) {
                TRV_UNROLL
                for (int k = 0; k < arrays; ++k)
                    all.in[k].load(slot, i);
            });
        return all;
    }

    template <class F, class T, class... In>
    KOKKOS_FUNCTION Kept<T, 1> keep_map(i64 n, F f, T* to, const In*... in) const
    {
        Kept<T, 1> all{*this, n, {{to, {}}}, false};
        all.kept = all.fits(to, in...);
        if (all.kept)
            all.each_with(
                [&](int slot, int i, const auto&... from) {
                    Pack<T, pack_width<T>()> out;
                    TRV_UNROLL
                    for (int j = 0; j < pack_width<T>(); ++j)
                        out.at[j] = static_cast<T>(f(from.get(slot, j)...));
                    out.store(to + i);
                    using Words = typename Pack<T, pack_width<T>()>::Words;
                    all.in[0].words[slot] = __builtin_bit_cast(Words, out);
                },
                detail::Input<In, Kept<T, 1>::width, Kept<T, 1>::ahead>{in, {}}...);
        else
            map(n, f, to, in...);
        sync(); // for later loops that read `to` from memory
        return all;
    }

    template <class T>
    KOKKOS_FUNCTION void copy(i64 n, const T* from, T* to) const
    {
        constexpr int width = pack_width<T>(), ahead = 4;
        const Split parts = split<width>(n, from, to);
        Pack<T, width> packs[ahead];
        detail::each_pack<ahead>(parts.packs, team_.rank(), team_.size(),
                                 [&](i64 p, [[maybe_unused]] int slot, bool ready) {
                                     if (ready)
                                         packs[slot].store(to + parts.head + p * width);
                                     else
                                         packs[slot] = Pack<T, width>::load(from + parts.head + p * width);
                                 });
        detail::each_single(n, width, parts, team_.rank(), team_.size(), [&](i64 i) { to[i] = from[i]; });
    }

    template <class A, class F>
    KOKKOS_FUNCTION A sum(i64 n, F f) const
    {
        return fold(n, A(0), f, [](A a, A b) { return a + b; });
    }

    template <class A, class F, class First, class... In>
    KOKKOS_FUNCTION A sum(i64 n, F f, const First* first, const In*... in) const
    {
        constexpr int width = pack_width<First, In...>(), ahead = detail::packs_ahead(1 + sizeof...(In));
        const Split parts = split<width>(n, first, in...);
        return team_.join(
            A(0),
            [&](int lane) {
                return sum_part<A, width, ahead>(n, parts, f, lane,
                                                 detail::Input<First, width, ahead>{first, {}},
                                                 detail::Input<In, width, ahead>{in, {}}...);
            },
            [](A a, A b) { return a + b; });
    }

    template <class A, class F>
    KOKKOS_FUNCTION A total(i64 n, F f) const
    {
        return sum<A>(n, f);
    }

    template <class A, class F>
    KOKKOS_FUNCTION A max(i64 n, F f) const
    {
        return fold(n, -A(INFINITY), f, [](A a, A b) { return b > a ? b : a; });
    }

    template <class A, class F, class Join>
    KOKKOS_FUNCTION A fold(i64 n, A none, F f, Join join) const
    {
        return team_.join(
            none,
            [&](int lane) {
                A mine = none;
                TRV_ROLLED
                for (i64 i = lane; i < n; i += team_.lanes())
                    mine = join(mine, f(i));
                return mine;
            },
            join);
    }

    template <class F>
    KOKKOS_FUNCTION void single(F f) const
    {
        if (team_.rank() == 0)
            f();
    }

    KOKKOS_FUNCTION void sync() const { team_.sync(); }

private:
    template <class A, int width, int ahead, class F, class... In>
    KOKKOS_FUNCTION A sum_part(i64 n, const Split& parts, F f, int lane, In... in) const
    {
        A part[ahead] = {};
        detail::each_pack<ahead>(parts.packs, lane, team_.lanes(),
                                 [&](i64 p, [[maybe_unused]] int slot, bool ready) {
                                     if (!ready)
                                         return (in.load(slot, parts.head + p * width), ...);
                                     TRV_UNROLL
                                     for (int j = 0; j < width; ++j)
                                         part[slot] += f(in.get(slot, j)...);
                                 });
        detail::each_single(n, width, parts, lane, team_.lanes(), [&](i64 i) { part[0] += f(in.one(i)...); });
        TRV_UNROLL
        for (int u = 1; u < ahead; ++u)
            part[0] += part[u];
        return part[0];
    }

    template <class F, class T, int outputs, class... In>
    KOKKOS_FUNCTION void map_into(i64 n, F f, Targets<T, outputs> to, const In*... in) const
    {
        constexpr int width = pack_width<T, In...>(), ahead = detail::packs_ahead(sizeof...(In));
        Split parts = split<width>(n, to.of[0], in...);
        for (int k = 1; k < outputs; ++k)
            if (split<width>(n, to.of[0], to.of[k]).packs == 0)
                parts = {n, 0};
        map_part<width, ahead>(n, parts, f, to, detail::Input<In, width, ahead>{in, {}}...);
    }

    template <int width, int ahead, class F, class T, int outputs, class... In>
    KOKKOS_FUNCTION void map_part(i64 n, const Split& parts, F f, const Targets<T, outputs>& to,
                                  In... in) const
    {
        detail::each_pack<ahead>(parts.packs, team_.rank(), team_.size(),
                                 [&](i64 p, [[maybe_unused]] int slot, bool ready) {
                                     const i64 i = parts.head + p * width;
                                     if (!ready)
                                         return (in.load(slot, i), ...);
                                     Pack<T, width> out[outputs];
                                     TRV_UNROLL
                                     for (int j = 0; j < width; ++j) {
                                         const auto values = f(in.get(slot, j)...);
                                         TRV_UNROLL
                                         for (int k = 0; k < outputs; ++k)
                                             out[k].at[j] = static_cast<T>(value_of(values, k));
                                     }
                                     TRV_UNROLL
                                     for (int k = 0; k < outputs; ++k)
                                         out[k].store(to.of[k] + i);
                                 });
        detail::each_single(n, width, parts, team_.rank(), team_.size(), [&](i64 i) {
            const auto values = f(in.one(i)...);
            TRV_UNROLL
            for (int k = 0; k < outputs; ++k)
                to.of[k][i] = static_cast<T>(value_of(values, k));
        });
    }

    const Team& team_;
};

template <class T, int arrays>
template <class... More>
KOKKOS_FUNCTION bool Kept<T, arrays>::fits(const More*... more) const
{
    const Team& team = row.team();
    return team.size() == team.lanes() && n <= i64{width} * ahead * team.lanes() && n % width == 0 &&
           ((reinterpret_cast<std::uintptr_t>(more) % (width * sizeof(More)) == 0) && ...);
}

template <class T, int arrays>
template <class F>
KOKKOS_FUNCTION void Kept<T, arrays>::each(int begin, int slots, F f) const
{
    const int end = static_cast<int>(n), first = row.team().rank() * width, step = row.team().size() * width;
    TRV_UNROLL
    for (int slot = begin; slot < begin + slots; ++slot)
        if (first + slot * step < end)
            f(slot, first + slot * step);
}

template <class T, int arrays>
template <std::size_t... k, class F>
KOKKOS_FUNCTION Acc<T> Kept<T, arrays>::sum_of(std::index_sequence<k...>, F f) const
{
    using A = Acc<T>;
    static_assert(ahead == detail::packs_ahead(arrays), "the order of Row::sum()");
    if (!kept)
        return row.template sum<A>(n, f, in[k].from...);
    return row.team().join(
        A(0),
        [&](int) {
            A part[ahead] = {};
            each(0, ahead, [&](int slot, int) {
                TRV_UNROLL
                for (int j = 0; j < width; ++j)
                    part[slot] += f(in[k].get(slot, j)...);
            });
            TRV_UNROLL
            for (int slot = 1; slot < ahead; ++slot)
                part[0] += part[slot];
            return part[0];
        },
        [](A a, A b) { return a + b; });
}

template <class T, int arrays>
template <std::size_t... k, class F, class... More>
KOKKOS_FUNCTION void Kept<T, arrays>::map_of(std::index_sequence<k...>, F f, T* to, const More*... more) const
{
    if (!kept || !fits(to, more...))
        return row.map(n, f, to, in[k].from..., more...);
    each_with(
        [&](int slot, int i, const auto&... also) {
            Pack<T, width> out;
            TRV_UNROLL
            for (int j = 0; j < width; ++j)
                out.at[j] = static_cast<T>(f(in[k].get(slot, j)..., also.get(slot, j)...));
            out.store(to + i);
        },
        detail::Input<More, width, ahead>{more, {}}...);
}

inline constexpr int columns_at_once = 1; // so that neighbouring threads have neighbouring elements
inline constexpr int loops_per_row = 64;

/// Lanes for a row of `width` elements of `size` bytes: up to four packs per lane, which Kept holds, so that
/// enough bytes are in flight. (A kernel that keeps several arrays passes twice their width.)
inline int row_lanes(i64 width, std::size_t size)
{
    const i64 packs = width * static_cast<i64>(size) / 16;
    int lanes = Team::fewest;
    while (lanes < Team::most && lanes * 4 < packs)
        lanes *= 2;
    return lanes;
}

template <class T, class F>
void for_rows(const Exec& exec, const char* label, i64 rows, i64 width, F f)
{
    launch_teams(
        exec, label, rows, row_lanes(width, sizeof(T)),
        KOKKOS_LAMBDA(const Team& team, i64 r) { f(Row(team), r); });
}

template <class F>
void for_each_index(const Exec& exec, const char* label, i64 n, F f)
{
    launch_range(exec, label, n, f);
}

namespace detail {

/// Arrays of several types (a lambda for a device may not capture a pack of parameters).
template <class... In>
struct Inputs {
    const void* from[sizeof...(In) + 1];

    template <std::size_t k, class T>
    KOKKOS_FUNCTION const T* get() const
    {
        return static_cast<const T*>(from[k]);
    }
};

/// A team's range of map().
template <class F, class To, class... In>
struct MapSpan {
    F f;
    To to;
    Inputs<In...> in;
    i64 n, span;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        run(team, index * span, std::index_sequence_for<In...>());
    }
    template <std::size_t... k>
    KOKKOS_FUNCTION void run(const Team& team, i64 begin, std::index_sequence<k...>) const
    {
        Row(team).map(n - begin < span ? n - begin : span, f, to + begin,
                      (in.template get<k, In>() + begin)...);
    }
};

} // namespace detail

template <class F, class To, class... In>
void map(const Exec& exec, const char* label, i64 n, F f, To to, const In*... in)
{
    // 16 elements are whole packs of every type.
    constexpr int lanes = 256;
    constexpr i64 span = i64{lanes} * detail::packs_ahead(sizeof...(In)) * 16;
    launch_teams(exec, label, ceil_div(n, span), lanes,
                 detail::MapSpan<F, To, In...>{f, to, {{in..., nullptr}}, n, span});
}

inline i64 task_workers(int, i64 tasks) { return std::max<i64>(1, std::min<i64>(264, tasks)); }

template <class F>
void for_tasks(const Exec& exec, const char* label, i64 tasks, i64 workers, F f)
{
    launch_teams(
        exec, label, workers, Team::at_tasks, KOKKOS_LAMBDA(const Team& team, i64 worker) {
            const Row row(team);
            TRV_ROLLED
            for (i64 task = worker; task < tasks; task += workers)
                f(row, task, worker);
        });
}

} // namespace on_teams
} // namespace trivium::kernels

#include "kernels/device/columns.hpp"
