#pragma once
// Binds the optimizer's ops. Dispatch::bind_together(), too, is in dispatch_optimizer.cpp.
#include "runtime/dispatch.hpp"

namespace trivium {

/// An empty Call if the op does not belong to the optimizer.
Call bind_optimizer(const Binding& binding);

} // namespace trivium
