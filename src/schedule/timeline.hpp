#pragma once
// A Timeline: the begin and end of each Step of a Schedule, measured or simulated.
#include "schedule/schedule.hpp"

namespace trivium {

struct Span {
    Seconds begin = 0, end = 0;
};

struct Timeline {
    std::vector<Span> spans; ///< one per Step
    Seconds length() const;
    /// Busy time of queue `queue` in seconds.
    Seconds busy(const Schedule& schedule, int queue) const;
};

} // namespace trivium
