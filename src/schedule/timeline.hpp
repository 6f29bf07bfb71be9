#pragma once
// A Timeline: when each Step of a Schedule begins and ends, measured or simulated.
#include "schedule/schedule.hpp"

namespace trivium {

struct Span {
    Seconds begin = 0, end = 0;
};

struct Timeline {
    std::vector<Span> spans; ///< one per Step
    Seconds length() const;
    /// Seconds in which queue `queue` works.
    Seconds busy(const Schedule& schedule, int queue) const;
};

/// Plays the Steps on a clock: each begins when its queue is free and the Steps that it waits for have ended.
/// `seconds` holds the duration of each Step.
Timeline play(const Schedule& schedule, const std::vector<Seconds>& seconds);

} // namespace trivium
