#pragma once
// The planner's description of this machine.
#include "plan/machine.hpp"
#include "runtime/device.hpp"

namespace trivium {

/// The known machine for this rank's hardware: "cpu" on the host, otherwise machine_of_device().
Machine machine_of(const Computing& computing);

} // namespace trivium
