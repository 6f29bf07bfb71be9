#pragma once
// A Timeline: the begin and end of each Step of a Schedule, measured or simulated.
#include "schedule/schedule.hpp"

namespace trivium {

struct Span {
    Seconds begin = 0, end = 0;
};

struct Timeline {
    std::vector<Span> spans; ///< by Step
    Seconds length() const;  ///< the end of the last Step to end
    /// The sum of the durations of the Steps on `queue`.
    Seconds busy(const Schedule& schedule, int queue) const;
};

} // namespace trivium
