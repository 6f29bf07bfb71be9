#include "schedule/order.hpp"

#include <algorithm>

namespace trivium {

std::vector<Task> pipeline_order(ScheduleKind kind, i64 stage, i64 stages, i64 microbatches)
{
    const i64 ahead = kind == ScheduleKind::gpipe ? microbatches : std::min(microbatches, stages - stage);
    std::vector<Task> tasks;
    for (i64 i = 0; i < microbatches + ahead; ++i) {
        if (i >= ahead)
            tasks.push_back({Phase::backward, i - ahead});
        if (i < microbatches)
            tasks.push_back({Phase::forward, i});
    }
    return tasks;
}

i64 in_flight(const std::vector<Task>& tasks)
{
    i64 live = 0, most = 0;
    for (const Task& task : tasks) {
        live += task.phase == Phase::forward ? 1 : 0;
        most = std::max(most, live);
        live -= task.phase == Phase::backward ? 1 : 0;
    }
    return most;
}

} // namespace trivium
