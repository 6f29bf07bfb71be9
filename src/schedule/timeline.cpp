#include "schedule/timeline.hpp"

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

} // namespace trivium
