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

} // namespace trivium
