#pragma once
// Binds general tensor ops (ir/general_ops.inc), for all four element types and for a rank's shards.
#include "runtime/dispatch.hpp"

namespace trivium {

/// An empty Call if the op is not a general op, or elements.hpp or dispatch_products.cpp bind it.
Call bind_general(const Binding& binding);

/// Ops of mixtures of experts (ir/expert_ops.inc) but the grouped products; an empty Call for other ops.
Call bind_experts(const Binding& binding);

/// pool, pool_grad, dynamic_slice, dynamic_update_slice, gather and scatter; an empty Call for other ops.
Call bind_windows(const Binding& binding);

/// accumulate and copies of i32, which kernels/elementwise.hpp lacks; an empty Call for other ops and types.
Call bind_integers(const Binding& binding);

/// split and concat: copies of consecutive ranges of one dimension.
Call bind_parts(const Binding& binding);

} // namespace trivium
