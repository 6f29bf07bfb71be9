#pragma once
// Binds general tensor ops (ir/general_ops.inc), for the four types of tensors and for a rank's part of an
// op.
#include "runtime/dispatch.hpp"

namespace trivium {

/// An empty Call if the op is none of them, or belongs to dispatch_products.cpp.
Call bind_general(const Binding& binding);

/// Those whose elements are in windows or at indices.
Call bind_windows(const Binding& binding);

/// Ops on elements that kernels/elementwise.hpp has for floating-point types only; empty unless the operand
/// or the result is i32.
Call bind_integers(const Binding& binding);

/// split and concat: consecutive parts of a dimension.
Call bind_parts(const Binding& binding);

} // namespace trivium
