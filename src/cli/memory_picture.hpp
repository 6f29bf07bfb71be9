#pragma once
// The picture of `explain --svg`.
#include "io/report/arena_chart.hpp"
#include "plan/memory_history.hpp"
#include "schedule/memory.hpp"

namespace trivium {

/// A program's buffers over an optimizer step, in the arena of the plan. \pre offsets are planned
ArenaChart memory_picture(const Schedule& schedule, const Graph& graph, const MemoryPlan& plan);

} // namespace trivium
