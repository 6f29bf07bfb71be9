#pragma once
// Internal: products in double, which oneDNN does not have.
#include "kernels/gemm.hpp"

namespace trivium::kernels {

Bytes product_f64_scratch(const ProductShape& shape, int threads);
/// \pre scratch.size >= product_f64_scratch(shape, exec.threads)
void product_f64(const Exec& exec, const ProductShape& shape, const double* a, const double* b, double* c,
                 bool overwrite, Scratch scratch);

} // namespace trivium::kernels
