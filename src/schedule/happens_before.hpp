#pragma once
// Which Steps are surely over when another begins: what memory may be planned on.
#include "schedule/schedule.hpp"

namespace trivium {

/// Vector clocks over the queues of a Schedule (Fidge 1988, Mattern 1989): per Step and queue, how many Steps
/// of that queue are over when it begins.
class HappensBefore {
public:
    /// Throws InternalError where a Step waits for a later one: the list would be no legal order.
    explicit HappensBefore(const Schedule& schedule);

    /// True where `earlier` is surely over when `later` begins.
    bool before(StepId earlier, StepId later) const
    {
        return position_[earlier.index()] < clock_[later.index() * queues_ + queue_[earlier.index()]];
    }

    /// A list position: all Steps in front of it are surely over when `later` begins.
    std::size_t all_over(StepId later) const { return all_over_[later.index()]; }

private:
    std::size_t queues_;
    std::vector<std::size_t> queue_;    ///< of a Step
    std::vector<std::size_t> position_; ///< of a Step, in its queue
    std::vector<std::size_t> clock_;    ///< by Step, then queue
    std::vector<std::size_t> all_over_; ///< of a Step
};

} // namespace trivium
