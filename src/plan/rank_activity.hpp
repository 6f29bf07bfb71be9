#pragma once
// The tasks of a pipeline rank over a step, and the times at which the rank only communicates or idles.
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
    std::vector<Span> step;        ///< compute outside of tasks: casts, norm, update
    std::vector<Span> collectives; ///< a collective runs and no op computes; may be within a task
    std::vector<Span> waits;       ///< within a task: no op computes and no collective runs
    Seconds busy = 0;              ///< total time in which an op computes or a collective runs
};

/// `tasks`: the order from which `schedule` was built. A Step that was moved into a later task counts there.
RankActivity rank_activity(const Graph& graph, const Schedule& schedule, const RankOrder& tasks,
                           const Timeline& timeline);

} // namespace trivium
