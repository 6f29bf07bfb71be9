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

/// Simulates the Steps on a clock: each begins when its queue is free and the Steps for which it waits have
/// ended. `seconds` holds the duration of each Step.
Timeline play(const Schedule& schedule, const std::vector<Seconds>& seconds);

} // namespace trivium
