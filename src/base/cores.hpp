#pragma once
// The cores that this process may use (its affinity).
#include <string>

namespace trivium {

/// How many; 0 where the system does not say.
int usable_core_count();
/// Their numbers, with commas between; empty where the system does not say.
std::string usable_cores();

} // namespace trivium
