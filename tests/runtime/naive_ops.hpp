#pragma once
// General ops, evaluated from their definitions in StableHLO on whole tensors of doubles.
#include "direct_op.hpp"

namespace trivium::runs {

/// The results, each rounded once to its type. `made` has their types.
std::vector<Array> naive_op(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
                            const std::vector<TensorType>& made);

} // namespace trivium::runs
