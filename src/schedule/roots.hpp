#pragma once
// Which values share a buffer, and where in it each value is.
#include "ir/graph.hpp"

namespace trivium {

/// The place of a value in its buffer: dense from the start, or columns of the buffer's matrix.
struct ColumnsIn {
    i64 first = 0; ///< first column, in elements
    i64 apart = 0; ///< elements from a row to the next; 0: dense
};

struct Roots {
    std::vector<ValueId> of;        ///< by value: the value whose buffer it uses
    std::vector<ColumnsIn> columns; ///< by value; empty: all are dense
};

/// The parts of a view (split_columns, join_columns) are in the buffer of the whole. A result that must alias
/// an operand is in the operand's buffer; so is a result that may, if nothing reads the operand later and,
/// where the operand is columns, all readers of the result accept columns. \pre check_columns() holds
Roots find_roots(const Graph& graph);

} // namespace trivium
