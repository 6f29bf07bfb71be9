// Two passes over a tensor: its largest magnitude, then the bytes.
#include "kernels/device/fp8.hpp"

#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/device/stream.hpp"

#include <algorithm>
#include <cuda_fp8.h>

namespace trivium::kernels {

namespace {

constexpr int threads = 256;
constexpr int most_blocks = 1056; // 8 per multiprocessor of an H100

int blocks_for(i64 items)
{
    return static_cast<int>(std::clamp<i64>(ceil_div(items, threads), 1, most_blocks));
}

/// Magnitudes compare like their bits, with NaN as the largest; an integer maximum does not depend on the
/// order.
__global__ void find_amax(i64 n, const bf16* x, Fp8Found* found)
{
    const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x,
              stride = static_cast<i64>(gridDim.x) * blockDim.x;
    const i64 packs = n / 8;
    const auto* packed = reinterpret_cast<const uint4*>(x);
    std::uint32_t two = 0; // maxima of the even and of the odd elements
    for (i64 i = first; i < packs; i += stride) {
        const uint4 pack = packed[i];
        const std::uint32_t left = __vmaxu2(pack.x & 0x7fff7fffu, pack.y & 0x7fff7fffu);
        const std::uint32_t right = __vmaxu2(pack.z & 0x7fff7fffu, pack.w & 0x7fff7fffu);
        two = __vmaxu2(two, __vmaxu2(left, right));
    }
    std::uint32_t amax = max(two & 0xffffu, two >> 16);
    if (packs * 8 + first < n)
        amax = max(amax, static_cast<std::uint32_t>(x[packs * 8 + first].bits & 0x7fffu));
    amax = __reduce_max_sync(0xffffffffu, amax);
    if (threadIdx.x % 32 == 0 && amax > 0)
        atomicMax(&found->amax, amax);
}

struct Scale {
    float scale, back;
};

/// Every thread computes the scale; one of them stores it for the product.
__device__ Scale scale_of(Fp8 format, Fp8Found* found)
{
    const float scale = fp8_scale(__uint_as_float(found->amax << 16), format), back = 1 / scale;
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        found->back = back;
    return {scale, back};
}

__device__ uint2 bytes_of(uint4 pack, float scale, __nv_fp8_interpretation_t kind)
{
    const auto pair = [&](std::uint32_t two) -> std::uint32_t { // the even element is in the lower half
        const float2 scaled{__uint_as_float(two << 16) * scale, __uint_as_float(two & 0xffff0000u) * scale};
        return __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, kind);
    };
    return {pair(pack.x) | pair(pack.y) << 16, pair(pack.z) | pair(pack.w) << 16};
}

__global__ void write_bytes(Fp8 format, __nv_fp8_interpretation_t kind, i64 packs, const uint4* x, uint2* y,
                            Fp8Found* found)
{
    const float scale = scale_of(format, found).scale;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
         i += static_cast<i64>(gridDim.x) * blockDim.x)
        y[i] = bytes_of(x[i], scale, kind);
}

constexpr int tile = 64, pitch = tile + 4;

/// A block transposes 64 x 64 numbers in shared memory.
__global__ void write_turned(Fp8 format, __nv_fp8_interpretation_t kind, i64 rows, i64 columns,
                             const bf16* x_rc, std::uint8_t* y_cr, Fp8Found* found)
{
    __shared__ alignas(16) std::uint8_t turned[tile * pitch]; // [column][row]
    const float scale = scale_of(format, found).scale;
    const i64 row_0 = static_cast<i64>(blockIdx.y) * tile, column_0 = static_cast<i64>(blockIdx.x) * tile;
    for (int item = threadIdx.x; item < tile * tile / 8; item += threads) {
        const int row = item / (tile / 8), column = item % (tile / 8) * 8;
        if (row_0 + row >= rows || column_0 + column >= columns)
            continue;
        const uint2 bytes = bytes_of(
            *reinterpret_cast<const uint4*>(x_rc + (row_0 + row) * columns + column_0 + column), scale, kind);
        for (int j = 0; j < 8; ++j)
            turned[(column + j) * pitch + row] =
                static_cast<std::uint8_t>((j < 4 ? bytes.x : bytes.y) >> (j % 4 * 8));
    }
    __syncthreads();
    const int column = threadIdx.x / 4, row = threadIdx.x % 4 * 16;
    if (column_0 + column < columns && row_0 + row < rows) {
        const auto* words = reinterpret_cast<const std::uint32_t*>(turned + column * pitch + row);
        *reinterpret_cast<uint4*>(y_cr + (column_0 + column) * rows + row_0 + row) = {words[0], words[1],
                                                                                      words[2], words[3]};
    }
}

__global__ void round_through(Fp8 format, i64 n, const bf16* x, bf16* y, Fp8Found* found)
{
    const Scale by = scale_of(format, found);
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += static_cast<i64>(gridDim.x) * blockDim.x)
        y[i] = bf16(fp8_decode(fp8_encode(x[i] * by.scale, format), format) * by.back);
}

void find(cudaStream_t stream, i64 n, const bf16* x, Fp8Found* found)
{
    check_cuda(cudaMemsetAsync(found, 0, sizeof(Fp8Found), stream), "cudaMemsetAsync");
    find_amax<<<blocks_for(n / 8), threads, 0, stream>>>(n, x, found);
    check_cuda(cudaGetLastError(), "find_amax");
}

} // namespace

void fp8_bytes(cudaStream_t stream, Fp8 format, i64 rows, i64 columns, const bf16* x_rc, bool transposed,
               std::uint8_t* y, Fp8Found* found)
{
    TRV_CHECK(rows % 16 == 0 && columns % 16 == 0, rows, " x ", columns, " numbers as bytes of FP8");
    const __nv_fp8_interpretation_t kind = format == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2;
    const i64 packs = rows * columns / 8;
    find(stream, rows * columns, x_rc, found);
    if (transposed) {
        const i64 across = ceil_div(columns, tile), down = ceil_div(rows, tile);
        TRV_CHECK(down < 65536, "a tensor of ", rows, " rows");
        write_turned<<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), threads, 0,
                       stream>>>(format, kind, rows, columns, x_rc, y, found);
    } else {
        write_bytes<<<blocks_for(packs), threads, 0, stream>>>(
            format, kind, packs, reinterpret_cast<const uint4*>(x_rc), reinterpret_cast<uint2*>(y), found);
    }
    check_cuda(cudaGetLastError(), "write_bytes");
}

void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch scratch)
{
    TRV_CHECK(scratch.size >= fp8_scratch, "rounding to FP8 needs ", fp8_scratch, " B of scratch");
    auto* const found = static_cast<Fp8Found*>(scratch.data);
    find(stream_of(exec), n, x, found);
    round_through<<<blocks_for(n), threads, 0, stream_of(exec)>>>(format, n, x, y, found);
    check_cuda(cudaGetLastError(), "round_through");
}

} // namespace trivium::kernels
