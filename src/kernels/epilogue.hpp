#pragma once
// The epilogue of a product as kernels of its own: where the library that multiplies has none that fits.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

/// Throws InternalError where a product of this shape cannot be made.
void check_product(const ProductShape& shape, int threads);

/// Where the bare product goes before finish_product().
void* product_target(const ProductShape& shape, void* c, const EpilogueOperands& beside);

/// From the bare product to the shape's epilogue: the same bits as bias_add, gelu and gelu_grad one after the
/// other.
void finish_product(const Exec& exec, const ProductShape& shape, void* c, const EpilogueOperands& beside);

} // namespace trivium::kernels
