#pragma once
// The memory of this machine.
#include "base/units.hpp"

namespace trivium {

/// Bytes that programs may still take here, of the machine and of this process's control group; -1 where
/// nobody says.
Bytes available_host_memory();

} // namespace trivium
