#pragma once
// Values that are columns of a wider value, in its buffer: the results of split_columns and the operands of
// join_columns.
#include "ir/ops/op_table.hpp"

namespace trivium {

/// The tensors of an op with OpInfo::columns. A part has the elements [first, first + its elements per row)
/// of each row of the whole.
struct Columns {
    ValueId whole;
    std::vector<ValueId> parts;
    std::vector<i64> first;  ///< column, by part
    i64 rows = 0, width = 0; ///< of the whole
};

/// Throws UserError if the parts do not fill the rows of the whole. \pre info(op).columns
Columns columns_of(const Graph& graph, const Op& op);

/// Whether the op's kernel can read operand `operand` as columns of a value with `rows` rows.
bool reads_columns(const Graph& graph, const Op& op, std::size_t operand, i64 rows);
/// Whether the op's kernel can write result `result` as columns of a value with `rows` rows.
bool writes_columns(const Graph& graph, const Op& op, std::size_t result, i64 rows);

/// Throws UserError unless the tensors of each view are computed in a microbatch and are not outputs, only
/// the split reads the whole of a split, and all kernels that read or write a part accept columns.
void check_columns(const Graph& graph);

// What the pass `group` must know about ops.

/// The factors of a product X W: X is [rows, common], W [common, columns], and the result [rows, columns].
struct ProductDims {
    std::vector<std::string> rows, common, columns;
};
/// The factors of the op; nothing unless it is such a product in a microbatch, with a result of X's type.
std::optional<ProductDims> dims_of_product(const Op& op);
/// Whether the op is dY W', the gradient of X in X W.
bool is_gradient_of_product(const Graph& graph, const Op& op);
bool adds_bias(const Op& op); ///< operand 1 to each row of operand 0
bool adds_two(const Op& op);  ///< two values of one type
bool casts(const Op& op);

// Ops whose results the caller adds. The first `rows` dimensions of every tensor are rows.

/// Copies and casts `parts` into one value of `dtype`.
Op packed_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows, DType dtype);
/// The view of `whole` as columns with the shapes of `parts`.
Op divided_columns(const Graph& graph, ValueId whole, const std::vector<ValueId>& parts, std::size_t rows);
/// The view of `parts` as columns of one value.
Op joined_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows);

} // namespace trivium
