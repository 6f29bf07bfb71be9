#pragma once
// One op, run by its kernel on plain arrays: whole, or each rank's part of it.
#include "ir/ops/op_table.hpp"

namespace trivium::runs {

/// A tensor's elements as doubles, row-major.
struct Array {
    TensorType type;
    std::vector<double> cells;
};

/// `value` as an element of `type` has it.
double rounded(double value, DType type);

/// The results of an op with these operands. \throws UserError if they do not fit
std::vector<Array> run_op(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands);

/// The op sharded over a mesh x=2, y=3 in every way that it allows: requires that the parts of all ranks,
/// each run by its kernel, are the parts of `whole`, partial ones combined. Returns the number of ways.
int check_parts(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
                const std::vector<Array>& whole);

/// Requires equal elements; NaN equals NaN. `tolerance`: relative to the largest magnitude of 1 and both.
void check_equal(const Array& made, const Array& expected, double tolerance);

} // namespace trivium::runs
