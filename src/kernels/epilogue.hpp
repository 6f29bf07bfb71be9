#pragma once
// Epilogues of products as separate kernels, for libraries without a suitable epilogue.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Throws InternalError if no product has this shape, or if threads < 1.
void check_product(const ProductShape& shape, int threads);

/// Where a library stores the product without epilogue: pre_mn for bias_gelu, otherwise c.
void* product_target(const ProductShape& shape, void* c, const EpilogueOperands& operands);

/// Applies the shape's epilogue to the product at product_target(): the same bits as bias_add, gelu,
/// gelu_grad and add in sequence.
void finish_product(const Exec& exec, const ProductShape& shape, void* c, const EpilogueOperands& operands);

} // namespace trivium::kernels
