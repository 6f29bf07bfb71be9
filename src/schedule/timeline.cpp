#include "schedule/timeline.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

Seconds Timeline::length() const
{
    Seconds end = 0;
    for (const Span& span : spans)
        end = std::max(end, span.end);
    return end;
}

Seconds Timeline::busy(const Schedule& schedule, int queue) const
{
    Seconds sum = 0;
    for (std::size_t i = 0; i < spans.size(); ++i)
        if (schedule.steps[i].queue == queue)
            sum += spans[i].end - spans[i].begin;
    return sum;
}

Timeline play(const Schedule& schedule, const std::vector<Seconds>& seconds)
{
    TRV_CHECK(seconds.size() == schedule.steps.size(), "a duration for each step");
    Timeline timeline;
    timeline.spans.resize(seconds.size());
    std::vector<Seconds> free_at(schedule.queues.size(), 0);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = schedule.steps[i];
        Seconds& queue_free = free_at[static_cast<std::size_t>(step.queue)];
        Seconds begin = queue_free;
        for (const StepId wait : step.waits)
            begin = std::max(begin, timeline.spans[wait.index()].end);
        timeline.spans[i] = {begin, begin + seconds[i]};
        queue_free = begin + seconds[i];
    }
    return timeline;
}

} // namespace trivium
