#pragma once
// Element-wise ops, whose kernels compute any range of elements.
#include "runtime/dispatch.hpp"

namespace trivium {

/// The kernel of an op over elements [begin, begin + n) of its result, which it writes to `out`. `in`: by
/// operand, the addresses of their elements of this range.
using ElementCall =
    std::function<void(const kernels::Exec&, i64 begin, i64 n, const void* const* in, void* out)>;

/// Empty if the op is not element-wise.
ElementCall bind_elements(const Binding& binding);

/// A broadcast that repeats long runs of its operand: `in` is the address of the whole operand. It runs on
/// the calling thread of the host. Empty for other ops.
ElementCall bind_spread(const Binding& binding);

/// The op over all elements. \pre `elements` is not empty
Call over_all(const ElementCall& elements, const Binding& binding);

} // namespace trivium
