#pragma once
// General ops, evaluated from their definitions in StableHLO on whole tensors of doubles.
#include "direct_op.hpp"

#include <array>

namespace trivium::runs {

/// The results, each rounded once to its type. `made` has their types.
std::vector<Array> naive_op(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
                            const std::vector<TensorType>& made);

/// One element of a result of type `made`, of an op on elements.
double naive_element(OpKind kind, const Attributes& attrs, bool integer, DType made,
                     const std::array<double, 3>& operands);

} // namespace trivium::runs
