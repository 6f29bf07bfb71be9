#include "mpi/combine.hpp"

#include "base/check.hpp"
#include "mpi/combiners.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

/// Tiles fit the first-level cache, so every part is read once and `out` is written once.
template <class T, class Op>
void combine_tiles(std::span<const std::byte* const> parts, std::byte* out, i64 count)
{
    constexpr i64 tile = 1024;
    alignas(64) Acc<T> sums[tile];
    for (i64 at = 0; at < count; at += tile) {
        const i64 n = std::min(tile, count - at);
        const T* first = reinterpret_cast<const T*>(parts[0]) + at;
        for (i64 i = 0; i < n; ++i)
            sums[i] = static_cast<Acc<T>>(first[i]);
        for (const std::byte* part : parts.subspan(1)) {
            const T* next = reinterpret_cast<const T*>(part) + at;
            for (i64 i = 0; i < n; ++i)
                sums[i] = Op::of(sums[i], static_cast<Acc<T>>(next[i]));
        }
        T* result = reinterpret_cast<T*>(out) + at;
        for (i64 i = 0; i < n; ++i)
            result[i] = static_cast<T>(sums[i]);
    }
}

} // namespace

void combine_parts(DType type, Combine combine, std::span<const std::byte* const> parts, std::byte* out,
                   i64 count)
{
    TRV_EXPECT(!parts.empty(), "nothing to combine");
    combiners::with_operator(type, combine, [&](auto element, auto op) {
        combine_tiles<decltype(element), decltype(op)>(parts, out, count);
    });
}

void combine_blocks(const Combination& combination)
{
    const Bytes element = size_of(combination.type);
    std::vector<const std::byte*> parts(static_cast<std::size_t>(combination.ranks));
    for (const CombineBlock& block : combination.blocks)
        for (i64 r = 0; r < block.rows; ++r) {
            for (int peer = 0; peer < combination.ranks; ++peer)
                parts[static_cast<std::size_t>(peer)] =
                    peer == combination.rank
                        ? block.own + r * block.own_stride * element
                        : combination.slot_of(peer) + (block.at + r * block.row) * element;
            combine_parts(combination.type, combination.combine, parts, block.out + r * block.row * element,
                          block.row);
        }
}

namespace {

/// Rows of `row` bytes, without a call for each.
template <Bytes row>
void copy_short_rows(const CopyBlock& block)
{
    for (i64 r = 0; r < block.rows; ++r) {
        std::byte held[row];
        std::memcpy(held, block.from + r * block.from_stride, row);
        std::memcpy(block.to + r * block.to_stride, held, row);
    }
}

void copy_rows(const CopyBlock& block)
{
    switch (block.row) {
    case 2: return copy_short_rows<2>(block);
    case 4: return copy_short_rows<4>(block);
    case 8: return copy_short_rows<8>(block);
    case 16: return copy_short_rows<16>(block);
    default:
        for (i64 r = 0; r < block.rows; ++r)
            if (std::byte* to = block.to + r * block.to_stride; to != block.from + r * block.from_stride)
                std::memmove(to, block.from + r * block.from_stride, static_cast<std::size_t>(block.row));
    }
}

} // namespace

void copy_blocks(std::span<const CopyBlock> blocks)
{
    for (const CopyBlock& block : blocks)
        copy_rows(block);
}

} // namespace trivium
