#pragma once
// The cores that this process may use: its affinity, and the CPU quota of its control groups.
#include <string>

namespace trivium {

/// Number of cores in the affinity, at most the CPU quota (rounded down, but at least 1); 0 if unknown.
int usable_core_count();
/// Ids of the cores in the affinity, comma-separated; empty if unknown. The quota does not matter here.
std::string usable_cores();

} // namespace trivium
