#pragma once
// The memory of this machine.
#include "base/units.hpp"

namespace trivium {

/// Available bytes on this machine and in this process's control group; -1 if unknown.
Bytes available_host_memory();

} // namespace trivium
