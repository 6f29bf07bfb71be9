#include "mpi/nccl/moves.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <cstdint>

namespace trivium {

void check_cuda_call(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"), cudaGetErrorString(status), "see what `nvidia-smi` says of the device and who uses it"});
}

namespace {

constexpr int threads = 256;
constexpr int unroll = 4;             ///< units that a thread has under way
constexpr int tile = threads * unroll; ///< units of one turn of a thread block
constexpr int batch = 48;             ///< blocks of one launch: they are the kernel's arguments
constexpr i64 largest_grid = 2048;    ///< thread blocks; more tiles take turns

/// Blocks [0, count) as tiles in a row: block i has those from first[i] to first[i + 1].
template <class Block>
struct Batch {
    Block blocks[batch];
    i64 first[batch + 1];
    int count;
};

/// The block that a tile belongs to.
template <class Block>
__device__ int block_of(const Batch<Block>& all, i64 at)
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

/// Row and column of unit `i` of rows of `row` units. Most blocks are small or of one row: 64-bit divisions are dear.
struct Place {
    i64 row, column;
};
__device__ Place place_of(i64 i, i64 rows, i64 row)
{
    if (rows == 1)
        return {0, i};
    if (i <= 0xffffffff && row <= 0xffffffff) {
        const auto short_i = static_cast<std::uint32_t>(i), short_row = static_cast<std::uint32_t>(row);
        return {short_i / short_row, short_i % short_row};
    }
    return {i / row, i % row};
}

// Copies, in units of 16, 8, 4 or 2 bytes.

struct DeviceCopy {
    std::byte* to;
    const std::byte* from;
    i64 to_stride, from_stride; ///< bytes
    i64 rows, row;              ///< units
    int unit;
};

template <class Unit>
__device__ void copy_tile(const DeviceCopy& block, i64 begin)
{
    const i64 end = block.rows * block.row;
    Unit held[unroll];
    std::byte* to[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const i64 i = begin + u * threads + threadIdx.x;
        to[u] = nullptr;
        if (i < end) {
            const Place at = place_of(i, block.rows, block.row);
            held[u] = *reinterpret_cast<const Unit*>(block.from + at.row * block.from_stride + at.column * static_cast<i64>(sizeof(Unit)));
            to[u] = block.to + at.row * block.to_stride + at.column * static_cast<i64>(sizeof(Unit));
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u)
        if (to[u])
            *reinterpret_cast<Unit*>(to[u]) = held[u];
}

__global__ void __launch_bounds__(threads) copy_kernel(const __grid_constant__ Batch<DeviceCopy> all)
{
    for (i64 at = blockIdx.x; at < all.first[all.count]; at += gridDim.x) {
        const int which = block_of(all, at);
        const DeviceCopy& block = all.blocks[which];
        const i64 begin = (at - all.first[which]) * tile;
        switch (block.unit) {
        case 16: copy_tile<uint4>(block, begin); break;
        case 8: copy_tile<uint2>(block, begin); break;
        case 4: copy_tile<std::uint32_t>(block, begin); break;
        default: copy_tile<std::uint16_t>(block, begin); break;
        }
    }
}

// Sums, in vectors of 16 bytes where all is aligned, else element by element.

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

template <class T>
struct AccumulatorOf {
    using type = float;
};
template <>
struct AccumulatorOf<double> {
    using type = double;
};

struct Sum {
    template <class A>
    __device__ static A of(A a, A b)
    {
        return a + b;
    }
};

struct LogSumExp {
    template <class A>
    __device__ static A of(A a, A b)
    {
        const A high = a < b ? b : a, low = a < b ? a : b;
        if ((isinf(low) && low < 0) || (isinf(high) && high == low)) // the identity, also of itself
            return high;
        return high + log1p(exp(low - high));
    }
};

template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
    T element[width];
};

template <class T, class Op, int width>
__device__ void combine_tile(const DeviceCombine& block, const Slots& slots, i64 begin)
{
    using A = typename AccumulatorOf<T>::type;
    using V = Vector<T, width>;
    const i64 end = block.rows * block.row;
    for (int u = 0; u < unroll; ++u) {
        const i64 i = begin + u * threads + threadIdx.x;
        if (i >= end)
            return;
        const Place place = place_of(i, block.rows, block.row);
        const std::byte* own = block.own + place.row * block.own_stride + place.column * static_cast<i64>(sizeof(V));
        const i64 at = block.at + i * static_cast<i64>(sizeof(V));
        const auto load = [&](int rank) {
            const std::byte* slot = slots.first + slots.stride * (slots.own || rank < slots.rank ? rank : rank - 1) + at;
            return *reinterpret_cast<const V*>(rank == slots.rank ? own : slot);
        };
        A sums[width];
        const V first = load(0);
#pragma unroll
        for (int e = 0; e < width; ++e)
            sums[e] = static_cast<A>(first.element[e]);
#pragma unroll 4
        for (int rank = 1; rank < slots.ranks; ++rank) {
            const V next = load(rank);
#pragma unroll
            for (int e = 0; e < width; ++e)
                sums[e] = Op::of(sums[e], static_cast<A>(next.element[e]));
        }
        V result;
#pragma unroll
        for (int e = 0; e < width; ++e)
            result.element[e] = static_cast<T>(sums[e]);
        *reinterpret_cast<V*>(block.out + i * static_cast<i64>(sizeof(V))) = result;
    }
}

template <class T, class Op>
__global__ void __launch_bounds__(threads) combine_kernel(const __grid_constant__ Batch<DeviceCombine> all, const Slots slots)
{
    for (i64 at = blockIdx.x; at < all.first[all.count]; at += gridDim.x) {
        const int which = block_of(all, at);
        const DeviceCombine& block = all.blocks[which];
        const i64 begin = (at - all.first[which]) * tile;
        if (block.vectors)
            combine_tile<T, Op, 16 / static_cast<int>(sizeof(T))>(block, slots, begin);
        else
            combine_tile<T, Op, 1>(block, slots, begin);
    }
}

/// Gives the blocks to `launch`, as many at a time as one launch takes.
template <class Made, class Blocks, class Make, class Launch>
void in_batches(const Blocks& blocks, Make&& make, Launch&& launch)
{
    static_assert(sizeof(Batch<Made>) + sizeof(Slots) <= 4096, "arguments of a kernel");
    Batch<Made> all{};
    const auto flush = [&] {
        if (all.count > 0)
            launch(all, static_cast<unsigned>(std::min(all.first[all.count], largest_grid)));
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

/// Whether all are multiples of `unit`.
template <class... Numbers>
bool divides(std::uintptr_t unit, Numbers... numbers)
{
    return ((static_cast<std::uintptr_t>(numbers) % unit == 0) && ...);
}

std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

template <class T, class Op>
void combine_of(const Combination& combination, cudaStream_t stream)
{
    const auto element = static_cast<i64>(sizeof(T));
    const Slots slots{combination.slots, combination.slot, combination.ranks, combination.rank, combination.own_slot};
    in_batches<DeviceCombine>(
        combination.blocks,
        [&](const CombineBlock& block) {
            const i64 stride = block.rows > 1 ? block.own_stride * element : 0;
            const bool vectors = divides(16, address(block.out), address(block.own), address(combination.slots), combination.slot, stride,
                                         block.at * element, block.row * element);
            return DeviceCombine{block.out, block.own, stride, block.at * element, block.rows, vectors ? block.row * element / 16 : block.row, vectors};
        },
        [&](const Batch<DeviceCombine>& all, unsigned grid) {
            combine_kernel<T, Op><<<grid, threads, 0, stream>>>(all, slots);
            check_cuda_call(cudaGetLastError(), "the launch of a sum");
        });
}

template <class T>
void combine_as(const Combination& combination, cudaStream_t stream)
{
    if (combination.combine == Combine::sum)
        combine_of<T, Sum>(combination, stream);
    else
        combine_of<T, LogSumExp>(combination, stream);
}

} // namespace

void copy_on_device(std::span<const CopyBlock> blocks, cudaStream_t stream)
{
    in_batches<DeviceCopy>(
        blocks,
        [](const CopyBlock& block) {
            const Bytes to_stride = block.rows > 1 ? block.to_stride : 0, from_stride = block.rows > 1 ? block.from_stride : 0;
            int unit = 16;
            while (unit > 1 && !divides(static_cast<std::uintptr_t>(unit), address(block.to), address(block.from), block.row, to_stride, from_stride))
                unit /= 2;
            TRV_CHECK(unit > 1, "a copy of odd bytes");
            return DeviceCopy{block.to, block.from, to_stride, from_stride, block.to == block.from && to_stride == from_stride ? 0 : block.rows, block.row / unit, unit};
        },
        [&](const Batch<DeviceCopy>& all, unsigned grid) {
            copy_kernel<<<grid, threads, 0, stream>>>(all);
            check_cuda_call(cudaGetLastError(), "the launch of a copy");
        });
}

void combine_on_device(const Combination& combination, cudaStream_t stream)
{
    switch (combination.type) {
    case DType::f64: combine_as<double>(combination, stream); return;
    case DType::f32: combine_as<float>(combination, stream); return;
    case DType::bf16: combine_as<bf16>(combination, stream); return;
    case DType::i32: break;
    }
    TRV_CHECK(combination.blocks.empty(), "no reduction of ", name_of(combination.type));
}

} // namespace trivium
