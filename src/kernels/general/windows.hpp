#pragma once
// Internal: loops over the elements of windows, for several neighbouring windows together.
#include "kernels/general/blocks.hpp"

#include <numeric>

namespace trivium::kernels {

/// How the windows of a tensor of results move over a tensor of sources. Per dimension: element t of window o
/// is the source (o * step - low + t * dilation) / base if that is an integer in [0, in).
struct WindowWalk {
    struct Dim {
        i64 out = 1, in = 1, in_stride = 1; ///< extents, and elements between neighbouring sources
        i64 window = 1, step = 1, low = 0, dilation = 1, base = 1;
        /// In the last dimension: every `every`-th window has an element at the same t, and between these lie
        /// `apart` sources.
        i64 every = 1, apart = 1;

        bool moves() const { return window != 1 || step != 1 || low != 0 || base != 1 || in != out; }
    };
    int rank = 0; ///< at least 1
    Dim dims[most_dims];
    i64 results = 1;    ///< elements of the tensor of results
    i64 outer_taps = 1; ///< elements of a window, without the last dimension

    i64 every() const { return dims[rank - 1].every; }

    /// Appends a dimension to the right; neighbours that do not move are merged. Call finish() after the
    /// last.
    void append(const Dim& dim)
    {
        results *= dim.out;
        if (!dim.moves() && dim.out == 1)
            return;
        Dim* const last = rank > 0 ? &dims[rank - 1] : nullptr;
        if (last && !dim.moves() && !last->moves()) {
            last->in = last->out *= dim.out;
            return;
        }
        dims[rank++] = dim;
    }
    void finish()
    {
        if (rank == 0)
            dims[rank++] = Dim();
        i64 stride = 1;
        for (int d = rank - 1; d >= 0; --d) {
            dims[d].in_stride = stride;
            stride *= dims[d].in;
            outer_taps *= d < rank - 1 ? dims[d].window : 1;
        }
        Dim& last = dims[rank - 1];
        const i64 common = std::gcd(last.step, last.base);
        last.every = last.base / common;
        last.apart = last.step / common;
    }
};

/// Neighbouring results that are computed together. A loop keeps them in slots: first those of each
/// `every`-th window, so that the hits of an element are neighbours.
inline constexpr int windows_at_once = columns_at_once == 1 ? 1 : 64;

TRV_HOST_DEVICE inline bool has_slots(i64 every) { return windows_at_once % every == 0; }
/// The slot of result j.
TRV_HOST_DEVICE inline i64 slot_of(i64 every, i64 j)
{
    if (every == 1 || !has_slots(every))
        return j;
    const i64 k = j / every;
    return (j - k * every) * windows_at_once / every + k;
}

/// Some of the neighbouring windows, `every`-th from `first` to before `end`, and the source of the first
/// one; `apart`: sources between them.
struct WindowHits {
    i64 first = 0, end = 0, every = 1, source = 0, apart = 1;
};

/// f(slot, source) for each of the windows.
template <class F>
TRV_HOST_DEVICE void each_hit(const WindowHits& hits, const F& f)
{
    const i64 slot = slot_of(hits.every, hits.first), source = hits.source;
    const i64 count = (hits.end - hits.first + hits.every - 1) / hits.every;
    const i64 step = has_slots(hits.every) ? 1 : hits.every;
    if (step != 1)
        for (i64 k = 0; k < count; ++k)
            f(slot + k * step, source + k * hits.apart);
    else if (hits.apart == 1) // loops that vectorise
        for (i64 k = 0; k < count; ++k)
            f(slot + k, source + k);
    else if (hits.apart == 2)
        for (i64 k = 0; k < count; ++k)
            f(slot + k, source + 2 * k);
    else
        for (i64 k = 0; k < count; ++k)
            f(slot + k, source + hits.apart * k);
}

/// to[j] = the value of result j, for j < width.
template <class T, class A>
TRV_HOST_DEVICE void store_slots(i64 every, i64 width, const A* slots, T* to)
{
    if (every == 1 || !has_slots(every)) {
        for (i64 j = 0; j < width; ++j)
            to[j] = static_cast<T>(slots[j]);
    } else if (every == 2) {
        constexpr i64 half = windows_at_once / 2;
        for (i64 k = 0; k < width / 2; ++k) {
            to[2 * k] = static_cast<T>(slots[k]);
            to[2 * k + 1] = static_cast<T>(slots[half + k]);
        }
        if (width % 2 == 1)
            to[width - 1] = static_cast<T>(slots[width / 2]);
    } else {
        for (i64 phase = 0; phase < every; ++phase, slots += windows_at_once / every)
            for (i64 j = phase, k = 0; j < width; j += every, ++k)
                to[j] = static_cast<T>(slots[k]);
    }
}

/// Those of the windows begin … begin + width - 1 of the last dimension whose element t is a source.
TRV_HOST_DEVICE inline WindowHits hits_of(const WindowWalk::Dim& dim, i64 begin, i64 width, i64 t)
{
    WindowHits hits{0, width, dim.every, 0, dim.apart};
    i64 at = begin * dim.step - dim.low + t * dim.dilation;
    if (at < 0) {
        hits.first = (-at + dim.step - 1) / dim.step;
        at += hits.first * dim.step;
    }
    if (dim.base != 1) {
        i64 tries = 0;
        for (i64 whole; (whole = at / dim.base) * dim.base != at; ++tries, ++hits.first, at += dim.step)
            if (tries == dim.every)
                return {};
        at = at / dim.base;
    }
    hits.source = at;
    const i64 left = dim.in - at; // sources from the first on
    if (left <= 0 || hits.first >= width)
        return {};
    const i64 wanted = (width - hits.first + dim.every - 1) / dim.every;
    if ((wanted - 1) * dim.apart >= left)
        hits.end = hits.first + (left - 1) / dim.apart * dim.every + 1;
    return hits;
}

/// f(tap, hits) for the elements of up to `width` windows from `begin` of the last dimension on, which have
/// the row-major index `row` in the others; in row-major order of the elements. `tap`: the element's place in
/// the window.
template <class F>
TRV_HOST_DEVICE void walk_windows(const WindowWalk& walk, i64 row, i64 begin, i64 width, const F& f)
{
    const int outer = walk.rank - 1;
    const WindowWalk::Dim& last = walk.dims[outer];
    i64 start[most_dims], tap[most_dims];
    for (int d = outer - 1; d >= 0; --d) {
        const i64 rest = row / walk.dims[d].out;
        start[d] = (row - rest * walk.dims[d].out) * walk.dims[d].step - walk.dims[d].low;
        row = rest;
        tap[d] = 0;
    }
    for (i64 t = 0; t < walk.outer_taps; ++t) {
        i64 from = 0;
        bool inside = true;
        for (int d = 0; d < outer && inside; ++d) {
            const WindowWalk::Dim& dim = walk.dims[d];
            i64 at = start[d] + tap[d] * dim.dilation;
            inside = at >= 0;
            if (dim.base != 1 && inside) {
                const i64 whole = at / dim.base;
                inside = whole * dim.base == at;
                at = whole;
            }
            inside = inside && at < dim.in;
            from += at * dim.in_stride;
        }
        for (i64 last_tap = 0; inside && last_tap < last.window; ++last_tap) {
            WindowHits hits = hits_of(last, begin, width, last_tap);
            hits.source += from;
            if (hits.first < hits.end)
                f(t * last.window + last_tap, hits);
        }
        for (int d = outer - 1; d >= 0 && ++tap[d] == walk.dims[d].window; --d)
            tap[d] = 0;
    }
}

/// f(row, begin, width, result) for groups of up to windows_at_once neighbouring windows; `result`: the index
/// of the first of them.
template <class F>
void for_windows(const Exec& exec, const char* label, const WindowWalk& walk, F f)
{
    const i64 columns = walk.dims[walk.rank - 1].out, tiles = ceil_div(columns, windows_at_once);
    if (walk.results == 0)
        return;
    for_blocks<loops_per_row>(
        exec, label, walk.results / columns * tiles, KOKKOS_LAMBDA(i64 i) {
            const i64 row = i / tiles, begin = (i - row * tiles) * windows_at_once, left = columns - begin;
            f(row, begin, left < windows_at_once ? left : windows_at_once, row * columns + begin);
        });
}

} // namespace trivium::kernels
