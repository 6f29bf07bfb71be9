#pragma once
// Internal: products for which oneDNN does not serve: in double, and all on processors without AVX-512.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

Bytes tiled_product_scratch(const ProductShape& shape, int threads);
/// a, b and c have the shape's types. bf16 is summed in f32 and rounded once.
/// \pre scratch.size >= tiled_product_scratch(shape, exec.threads)
void tiled_product(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
                   bool overwrite, Scratch scratch);

} // namespace trivium::kernels
