#pragma once
#include "schedule/named_order.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// The tasks of one stage of several, for a graph that may be any of them.
inline ScheduleConfig stage_order(const Graph& graph, ScheduleKind kind, i64 stage, i64 stages,
                                  i64 microbatches, const ScratchBudget& scratch = {})
{
    RankOrder tasks = named_order(kind, stages, 1, microbatches).ranks[static_cast<std::size_t>(stage)];
    for (Task& task : tasks)
        task.stage = graph.stage_of_block.empty() ? 0 : stage;
    return {.microbatches = microbatches, .tasks = tasks, .scratch = scratch};
}

} // namespace trivium
