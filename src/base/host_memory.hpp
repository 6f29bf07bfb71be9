#pragma once
// The memory of this machine.
#include "base/units.hpp"

namespace trivium {

/// Bytes available on this machine and within the memory limits of this process's control groups; -1 if
/// unknown.
Bytes available_host_memory();

} // namespace trivium
