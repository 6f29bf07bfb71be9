#pragma once
// Values that are columns of a wider one, in its buffer: the parts of split_columns and join_columns.
#include "ir/op_table.hpp"

namespace trivium {

/// The whole and its parts, of an op with `columns`. A part has the elements [first, first + its elements per
/// row) of each row of the whole.
struct Columns {
    ValueId whole;
    std::vector<ValueId> parts;
    std::vector<i64> first;  ///< column, by part
    i64 rows = 0, width = 0; ///< of the whole
};

/// Throws UserError if the parts do not fill the rows of the whole. \pre info(op).columns
Columns columns_of(const Graph& graph, const Op& op);

/// Whether the op's kernel reads that operand if it is columns of `rows` rows.
bool reads_columns(const Graph& graph, const Op& op, std::size_t operand, i64 rows);
/// Whether it writes that result so.
bool writes_columns(const Graph& graph, const Op& op, std::size_t result, i64 rows);

/// Throws UserError unless each view is of microbatch values, only the split reads the whole of a split, and
/// all kernels that read or write a part accept columns.
void check_columns(const Graph& graph);

// What the pass `group` must know about ops.

/// The dimensions of a product X W: X has the rows, then the common ones, W the common ones, then the
/// columns, and the result the rows, then the columns.
struct ProductDims {
    std::vector<std::string> rows, common, columns;
};
/// Those of an op of a microbatch that is such a product, in the type of X.
std::optional<ProductDims> dims_of_product(const Op& op);
/// Whether the op is dY W', the gradient of X.
bool is_gradient_of_product(const Graph& graph, const Op& op);
bool adds_bias(const Op& op); ///< operand 1 to each row of operand 0
bool adds_two(const Op& op);  ///< two values of one type
bool casts(const Op& op);

/// Ops without results, whose first `rows` dimensions are rows: the parts packed into one value of that type,
/// the whole divided into such parts, the parts as one whole.
Op packed_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows, DType dtype);
Op divided_columns(const Graph& graph, ValueId whole, const std::vector<ValueId>& parts, std::size_t rows);
Op joined_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows);

} // namespace trivium
