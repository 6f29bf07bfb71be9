#pragma once
// The memory of this machine.
#include "base/units.hpp"

namespace trivium {

/// Available bytes on this machine and within the limits of this process's control groups; -1 if unknown.
Bytes available_host_memory();

} // namespace trivium
