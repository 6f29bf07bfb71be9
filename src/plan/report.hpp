#pragma once
// The memory plan as a table for people.
#include "schedule/memory.hpp"

namespace trivium {

/// A row per kind that is live at the peak, then the arena and what stands beside it.
std::string memory_table(const MemoryPlan& plan);

} // namespace trivium
