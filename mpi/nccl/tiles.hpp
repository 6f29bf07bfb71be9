#pragma once
// Internal: the kernels of moves.cpp, thread by thread, and their launch. Threads are independent, so the
// host can run them one after the other, as the tests do.
#include "base/bf16.hpp"
#include "mpi/collective_rounds.hpp"
#include "mpi/combiners.hpp"

#include <cstdint>
#include <span>

namespace trivium::tiles {

constexpr int threads = 256;           ///< of a thread block
constexpr int unroll = 4;              ///< units that a thread processes at once
constexpr int tile = threads * unroll; ///< units per iteration of a thread block
constexpr int batch = 48;              ///< blocks of a Batch: they are kernel arguments
constexpr i64 largest_grid = 2048;     ///< maximum thread blocks of a launch; each iterates over more tiles

/// Index of a thread in a launch.
struct Thread {
    i64 block, blocks;
    int thread;
};

/// Blocks [0, count), divided into consecutive tiles: block i begins at tile first[i].
template <class Block>
struct Batch {
    Block blocks[batch];
    i64 first[batch + 1];
    int count;
};

/// Index of the block that contains tile `at`.
template <class Block>
TRV_HOST_DEVICE int block_of(const Batch<Block>& all, i64 at)
{
    int low = 0, high = all.count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (all.first[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/// Row and column of unit `i` of rows of `row` units. Avoids 64-bit divisions, which are slow, for small
/// blocks and single rows.
struct Place {
    i64 row, column;
};
TRV_HOST_DEVICE inline Place place_of(i64 i, i64 rows, i64 row)
{
    if (rows == 1)
        return {0, i};
    if (i <= 0xffffffff && row <= 0xffffffff) {
        const auto short_i = static_cast<std::uint32_t>(i), short_row = static_cast<std::uint32_t>(row);
        return {short_i / short_row, short_i % short_row};
    }
    return {i / row, i % row};
}

template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
    T element[width];
};

// Copies, in units of 16, 8, 4 or 2 bytes.

struct DeviceCopy {
    std::byte* to;
    const std::byte* from;
    i64 to_stride, from_stride; ///< bytes
    i64 rows, row;              ///< units
    int unit;
};

template <class Unit>
TRV_HOST_DEVICE void copy_tile(const DeviceCopy& block, i64 begin, int thread)
{
    const i64 end = block.rows * block.row;
    Unit held[unroll];
    std::byte* to[unroll];
    for (int u = 0; u < unroll; ++u) {
        const i64 i = begin + u * threads + thread;
        to[u] = nullptr;
        if (i < end) {
            const Place at = place_of(i, block.rows, block.row);
            held[u] = *reinterpret_cast<const Unit*>(block.from + at.row * block.from_stride +
                                                     at.column * static_cast<i64>(sizeof(Unit)));
            to[u] = block.to + at.row * block.to_stride + at.column * static_cast<i64>(sizeof(Unit));
        }
    }
    for (int u = 0; u < unroll; ++u)
        if (to[u])
            *reinterpret_cast<Unit*>(to[u]) = held[u];
}

TRV_HOST_DEVICE inline void copy_thread(const Batch<DeviceCopy>& all, Thread me)
{
    for (i64 at = me.block; at < all.first[all.count]; at += me.blocks) {
        const int which = block_of(all, at);
        const DeviceCopy& block = all.blocks[which];
        const i64 begin = (at - all.first[which]) * tile;
        switch (block.unit) {
        case 16: copy_tile<Vector<std::uint32_t, 4>>(block, begin, me.thread); break;
        case 8: copy_tile<Vector<std::uint32_t, 2>>(block, begin, me.thread); break;
        case 4: copy_tile<std::uint32_t>(block, begin, me.thread); break;
        default: copy_tile<std::uint16_t>(block, begin, me.thread); break;
        }
    }
}

// Reductions, in vectors of 16 bytes if everything is aligned, otherwise element by element.

struct DeviceCombine {
    std::byte* out;
    const std::byte* own;
    i64 own_stride; ///< bytes
    i64 at;         ///< bytes, in each slot
    i64 rows, row;  ///< units
    bool vectors;
};

struct Slots {
    const std::byte* first;
    i64 stride;
    int ranks, rank;
    bool own;
};

template <class T, class Op, int width>
TRV_HOST_DEVICE void combine_tile(const DeviceCombine& block, const Slots& slots, i64 begin, int thread)
{
    using A = Acc<T>;
    using V = Vector<T, width>;
    const i64 end = block.rows * block.row;
    for (int u = 0; u < unroll; ++u) {
        const i64 i = begin + u * threads + thread;
        if (i >= end)
            return;
        const Place place = place_of(i, block.rows, block.row);
        const std::byte* own =
            block.own + place.row * block.own_stride + place.column * static_cast<i64>(sizeof(V));
        const i64 at = block.at + i * static_cast<i64>(sizeof(V));
        const auto load = [&](int rank) {
            const std::byte* slot =
                slots.first + slots.stride * (slots.own || rank < slots.rank ? rank : rank - 1) + at;
            return *reinterpret_cast<const V*>(rank == slots.rank ? own : slot);
        };
        A sums[width];
        const V first = load(0);
        for (int e = 0; e < width; ++e)
            sums[e] = static_cast<A>(first.element[e]);
        for (int rank = 1; rank < slots.ranks; ++rank) {
            const V next = load(rank);
            for (int e = 0; e < width; ++e)
                sums[e] = Op::of(sums[e], static_cast<A>(next.element[e]));
        }
        V result;
        for (int e = 0; e < width; ++e)
            result.element[e] = static_cast<T>(sums[e]);
        *reinterpret_cast<V*>(block.out + i * static_cast<i64>(sizeof(V))) = result;
    }
}

template <class T, class Op>
TRV_HOST_DEVICE void combine_thread(const Batch<DeviceCombine>& all, const Slots& slots, Thread me)
{
    for (i64 at = me.block; at < all.first[all.count]; at += me.blocks) {
        const int which = block_of(all, at);
        const DeviceCombine& block = all.blocks[which];
        const i64 begin = (at - all.first[which]) * tile;
        if (block.vectors)
            combine_tile<T, Op, 16 / static_cast<int>(sizeof(T))>(block, slots, begin, me.thread);
        else
            combine_tile<T, Op, 1>(block, slots, begin, me.thread);
    }
}

// Host code.

/// Whether all `numbers` are multiples of `unit`.
template <class... Numbers>
bool divides(std::uintptr_t unit, Numbers... numbers)
{
    return ((static_cast<std::uintptr_t>(numbers) % unit == 0) && ...);
}

inline std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

/// Converts the blocks by `make` and passes them to `launch` in batches, each with its number of thread
/// blocks.
template <class Made, class Blocks, class Make, class Launch>
void in_batches(const Blocks& blocks, Make&& make, Launch&& launch)
{
    Batch<Made> all{};
    const auto flush = [&] {
        if (all.count > 0)
            launch(all, std::min(all.first[all.count], largest_grid));
        all.count = 0;
    };
    for (const auto& block : blocks) {
        const Made made = make(block);
        const i64 units = made.rows * made.row;
        if (units == 0)
            continue;
        all.blocks[all.count] = made;
        all.first[all.count + 1] = all.first[all.count] + ceil_div(units, i64{tile});
        if (++all.count == batch)
            flush();
    }
    flush();
}

/// `launch(batch, thread_blocks)` runs copy_thread().
template <class Launch>
void copy(std::span<const CopyBlock> blocks, Launch&& launch)
{
    in_batches<DeviceCopy>(
        blocks,
        [](const CopyBlock& block) {
            const Bytes to_stride = block.rows > 1 ? block.to_stride : 0,
                        from_stride = block.rows > 1 ? block.from_stride : 0;
            int unit = 16;
            while (unit > 1 && !divides(static_cast<std::uintptr_t>(unit), address(block.to),
                                        address(block.from), block.row, to_stride, from_stride))
                unit /= 2;
            TRV_CHECK(unit > 1, "a copy with odd addresses or sizes");
            const bool in_place = block.to == block.from && to_stride == from_stride;
            return DeviceCopy{block.to,         block.from, to_stride, from_stride, in_place ? 0 : block.rows,
                              block.row / unit, unit};
        },
        launch);
}

/// For elements of type T; `launch(batch, slots, thread_blocks)` runs combine_thread<T, Op>().
template <class T, class Launch>
void combine(const Combination& combination, Launch&& launch)
{
    const auto element = static_cast<i64>(sizeof(T));
    const Slots slots{combination.slots, combination.slot, combination.ranks, combination.rank,
                      combination.own_slot};
    in_batches<DeviceCombine>(
        combination.blocks,
        [&](const CombineBlock& block) {
            const i64 stride = block.rows > 1 ? block.own_stride * element : 0;
            const bool vectors =
                divides(16, address(block.out), address(block.own), address(combination.slots),
                        combination.slot, stride, block.at * element, block.row * element);
            return DeviceCombine{block.out,  block.own,
                                 stride,     block.at * element,
                                 block.rows, vectors ? block.row * element / 16 : block.row,
                                 vectors};
        },
        [&](const Batch<DeviceCombine>& all, i64 grid) { launch(all, slots, grid); });
}

/// Calls `run` with an element of the combination's type and its operator; without blocks, does nothing.
/// \throws InternalError if there is no such reduction
template <class Run>
void with_combination(const Combination& combination, Run&& run)
{
    if (!combination.blocks.empty()) // a gather has no operator
        combiners::with_operator(combination.type, combination.combine, run);
}

} // namespace trivium::tiles
