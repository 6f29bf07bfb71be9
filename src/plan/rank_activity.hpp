#pragma once
// What a pipeline rank does over a step: its tasks, and the time in which it only communicates or idles.
#include "schedule/order.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

struct TaskSpan {
    Task task;
    Span span; ///< from the first to the last Step that computes
};

/// The spans of one list do not overlap and are ordered.
struct RankActivity {
    std::vector<TaskSpan> tasks;
    std::vector<Span> step;        ///< computes for the whole step: casts, norm, update
    std::vector<Span> collectives; ///< a collective runs and nothing computes; may be within a task
    std::vector<Span> waits;       ///< within a task: nothing computes and no collective runs
    Seconds busy = 0;              ///< computes, or runs a collective
};

/// `tasks`: those of the schedule. A Step that was moved into a later task counts there.
RankActivity rank_activity(const Graph& graph, const Schedule& schedule, const RankOrder& tasks,
                           const Timeline& timeline);

} // namespace trivium
