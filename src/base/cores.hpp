#pragma once
// The cores that this process may use: its affinity, and the CPU quota of its control groups.
#include <string>

namespace trivium {

/// Their number, at most the quota; 0 if unknown.
int usable_core_count();
/// Their ids, comma-separated; empty if unknown.
std::string usable_cores();

} // namespace trivium
