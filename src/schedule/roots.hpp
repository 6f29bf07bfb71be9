#pragma once
// Which values share a buffer, and where in it each of them is.
#include "ir/graph.hpp"

namespace trivium {

/// Where a value is in its buffer: from the start and dense, or columns of the buffer's matrix.
struct ColumnsIn {
    i64 first = 0; ///< column, in elements
    i64 apart = 0; ///< elements between rows; 0: dense
};

struct Roots {
    std::vector<ValueId> of;        ///< by value: the value whose buffer it uses
    std::vector<ColumnsIn> columns; ///< by value; empty: all are dense
};

/// Parts of a view are in the buffer of the whole. Results that must alias an operand are in its buffer, and
/// so are results that may if nothing reads the operand later; of columns, if all readers of the result
/// accept columns. \pre check_columns() holds
Roots find_roots(const Graph& graph);

} // namespace trivium
