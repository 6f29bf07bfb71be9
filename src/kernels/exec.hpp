#pragma once
// The first parameter of every kernel, and the names shared by all kernel headers.
//
// Conventions of this room:
//   - tensors are row-major and contiguous; a suffix names the shape: x_rd is [rows, dim];
//   - T is the storage type, double, float or bf16; arithmetic and statistics are Acc<T>; in general/ T may
//     be int32, too, whose arithmetic wraps around;
//   - a "gradient accumulator" is Acc<T>*; `overwrite` stores the sum, otherwise the kernel adds it;
//   - the caller owns every buffer; no kernel allocates; sizes are i64, token ids int32;
//   - results are the same bits for any number of threads, and in every run;
//   - a violated precondition throws InternalError: scratch and most sizes are always checked, some only if
//     contracts are on, contents of buffers (tokens, positions, indices) never.
#include "base/dtype.hpp"

namespace trivium::kernels {

/// Where a kernel runs. On the host: on at most `threads` threads; the call returns when the work is done. On
/// a device: the call only enqueues the work, on the Kokkos execution space instance at `stream` (null: the
/// default one).
struct Exec {
    int threads = 1;
    void* stream = nullptr;
};

/// Working memory for one call; its content is undefined before and after.
/// `data` must be aligned to 64 bytes.
struct Scratch {
    void* data = nullptr;
    Bytes size = 0;
};

using trivium::Acc;

} // namespace trivium::kernels
