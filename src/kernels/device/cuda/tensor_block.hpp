#pragma once
// Internal: the operations of kernels for tensor cores.
//
// Such a kernel is a function template over a Block, one thread's view of its thread block. On a device it is
// CudaBlock (mma.hpp); tests/kernels/emulator has one that runs the same source on a CPU. A Block b has:
//
//   b.thread(), b.index()             the thread in the block, the block in the grid
//   b.sync(), b.sync_warp()           barriers, which order accesses to shared memory
//   b.copy_async(to, from, inside)    16 B into shared memory at `to`, zeros if not `inside`
//   b.commit(), b.wait()              commit() groups the copies; wait() waits for all groups of this thread
//   b.load_matrices(to, at)           ldmatrix.x4: lane 8 m + r passes row r (16 B) of the 8 x 8 matrix m
//   b.load_transposed(to, at)         as load_matrices(), with .trans
//   b.load_shared(at), b.store_shared(at, word)          16 B, 4 B
//   b.load(from), b.load_float(from), b.store(to, ...)   device memory: 16 B or one float
//   b.multiply(c, a, b0, b1)          c[16, 8] += a[16, 16] b[16, 8]: mma.m16n8k16, bf16 into f32
//   b.shuffle_xor(value, mask), b.exp2(x), b.pack(low, high)
//
// Addresses in shared memory are byte offsets from its start, which is aligned to 128 bytes. All 32 lanes
// take part in warp operations (sync_warp, shuffles, matrices).
#include "base/units.hpp"

#ifdef __CUDACC__
#define TRV_DEVICE __device__ __forceinline__
#define TRV_UNROLL _Pragma("unroll")
#else
#define TRV_DEVICE inline
#define TRV_UNROLL
#endif

namespace trivium::kernels {

using u32 = std::uint32_t;

/// 16 bytes.
struct alignas(16) Words {
    u32 word[4];
};

} // namespace trivium::kernels
