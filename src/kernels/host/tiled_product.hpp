#pragma once
// Internal: products that oneDNN does not compute: of double, and on processors without AVX-512 all.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Bytes of scratch of tiled_product() on `threads` threads.
Bytes tiled_product_scratch(const ProductShape& shape, int threads);
/// c (+)= op(a) · op(b), without epilogue and FP8. bf16 is summed in f32 and rounded once.
/// \pre scratch.size >= tiled_product_scratch(shape, exec.threads)
void tiled_product(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
                   bool overwrite, Scratch scratch);

} // namespace trivium::kernels
