#pragma once
// What the planner's terms for this machine are.
#include "plan/machine.hpp"
#include "runtime/device.hpp"

namespace trivium {

/// The known machine that is nearest to what this rank computes on.
Machine machine_of(const Computing& computing);

} // namespace trivium
