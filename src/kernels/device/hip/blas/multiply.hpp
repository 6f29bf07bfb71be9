#pragma once
// Plain products by rocBLAS. portable/multiply.hpp has the same functions.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Bytes of scratch that multiply() needs. `most` has no effect.
Bytes multiply_scratch(const ProductShape& shape, Bytes most);

/// c = op(a) · op(b), or c += op(a) · op(b) if not `overwrite`. No epilogue, no FP8. \pre m, n, k > 0
void multiply(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
              bool overwrite, Scratch scratch);

} // namespace trivium::kernels
