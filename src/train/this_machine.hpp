#pragma once
// The planner's description of this machine.
#include "plan/machine.hpp"
#include "runtime/device.hpp"

namespace trivium {

/// The known machine that is most similar to the hardware of this rank.
Machine machine_of(const Computing& computing);

} // namespace trivium
