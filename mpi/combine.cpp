#include "mpi/combine.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trivium {

namespace {

struct Sum {
    template <class T>
    T operator()(T a, T b) const
    {
        return a + b;
    }
};

struct LogSumExp {
    template <class T>
    T operator()(T a, T b) const
    {
        const T high = a < b ? b : a, low = a < b ? a : b;
        if (std::isinf(low) && low < 0) // both are the identity
            return high;
        if (std::isinf(high) && high == low)
            return high;
        return high + std::log1p(std::exp(low - high));
    }
};

/// Tiles fit the first-level cache, so every part is read once and `out` is written once.
template <class T, class Accumulator, class Op>
void combine_tiles(std::span<const std::byte* const> parts, std::byte* out, i64 count, Op op)
{
    constexpr i64 tile = 1024;
    alignas(64) Accumulator sums[tile];
    for (i64 at = 0; at < count; at += tile) {
        const i64 n = std::min(tile, count - at);
        const T* first = reinterpret_cast<const T*>(parts[0]) + at;
        for (i64 i = 0; i < n; ++i)
            sums[i] = static_cast<Accumulator>(first[i]);
        for (const std::byte* part : parts.subspan(1)) {
            const T* next = reinterpret_cast<const T*>(part) + at;
            for (i64 i = 0; i < n; ++i)
                sums[i] = op(sums[i], static_cast<Accumulator>(next[i]));
        }
        T* result = reinterpret_cast<T*>(out) + at;
        for (i64 i = 0; i < n; ++i)
            result[i] = static_cast<T>(sums[i]);
    }
}

template <class Op>
void combine_of(DType type, std::span<const std::byte* const> parts, std::byte* out, i64 count, Op op)
{
    if (type == DType::f64)
        combine_tiles<double, double>(parts, out, count, op);
    else if (type == DType::f32)
        combine_tiles<float, float>(parts, out, count, op);
    else if (type == DType::bf16)
        combine_tiles<bf16, float>(parts, out, count, op);
    else
        TRV_CHECK(false, "no reduction of ", name_of(type));
}

} // namespace

void combine_parts(DType type, Combine combine, std::span<const std::byte* const> parts, std::byte* out,
                   i64 count)
{
    TRV_EXPECT(!parts.empty() && (type == DType::f64 || type == DType::f32 || type == DType::bf16),
               parts.size(), " parts of ", name_of(type));
    if (combine == Combine::sum)
        combine_of(type, parts, out, count, Sum{});
    else
        combine_of(type, parts, out, count, LogSumExp{});
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

void copy_blocks(std::span<const CopyBlock> blocks)
{
    for (const CopyBlock& block : blocks)
        for (i64 r = 0; r < block.rows; ++r)
            if (std::byte* to = block.to + r * block.to_stride; to != block.from + r * block.from_stride)
                std::memmove(to, block.from + r * block.from_stride, static_cast<std::size_t>(block.row));
}

} // namespace trivium
