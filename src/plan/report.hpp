#pragma once
// What was planned, as tables for people.
#include "schedule/memory.hpp"

namespace trivium {

/// The collectives and messages of a local graph, one row for those alike: where, what, along which axis, how often a
/// microbatch (or step), and the bytes that a rank sends for one, on average.
std::string communication_table(const Graph& graph);

/// A row per kind that is live at the peak, then the arena and what stands beside it.
std::string memory_table(const MemoryPlan& plan);

} // namespace trivium
