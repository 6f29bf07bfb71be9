#pragma once
// A product's rule as one GEMM: which factors are rows, columns, contracted and batch.
#include "ir/factors.hpp"

#include <optional>

namespace trivium {

/// C[batch, m, n] = op(A)[batch, m, k] op(B)[batch, k, n], all row-major and dense.
struct ProductForm {
    i64 batch = 1, m = 1, n = 1, k = 1;
    bool trans_a = false; ///< A is stored as [k, m]
    bool trans_b = false; ///< B is stored as [n, k]
    bool swapped = false; ///< the rule's result is [n, m]: here operand 1 is A, operand 0 is B
};

/// Uses the rule's first two operands and first result; further ones belong to the epilogue of the product.
/// Nothing if the rule is not a single GEMM: a group of factors is not contiguous and in the same order in
/// each tensor, or only one tensor has some factor. \pre the rule has two operands and a result
std::optional<ProductForm> find_product_form(const FactorRule& rule);

} // namespace trivium
