#pragma once
// Plain products by rocBLAS. portable/multiply.hpp has the same functions.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Scratch of multiply(), at most `most` bytes if that is possible.
Bytes multiply_scratch(const ProductShape& shape, Bytes most);

/// c = op(a) · op(b), or c += if not `overwrite`. Without epilogue and FP8; m, n, k > 0.
void multiply(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
              bool overwrite, Scratch scratch);

} // namespace trivium::kernels
