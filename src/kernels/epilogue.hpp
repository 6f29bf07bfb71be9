#pragma once
// Epilogues of products as separate kernels, for libraries without a suitable epilogue.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Throws InternalError if a product of this shape is not supported.
void check_product(const ProductShape& shape, int threads);

/// Destination of the plain product before finish_product().
void* product_target(const ProductShape& shape, void* c, const EpilogueOperands& operands);

/// Applies the shape's epilogue to the plain product: the same bits as bias_add, gelu, gelu_grad and add
/// in sequence.
void finish_product(const Exec& exec, const ProductShape& shape, void* c, const EpilogueOperands& operands);

} // namespace trivium::kernels
