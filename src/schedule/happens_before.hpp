#pragma once
// Which Steps have certainly ended when another Step begins; memory planning relies on it.
#include "schedule/schedule.hpp"

#include <cstdint>

namespace trivium {

/// Vector clocks over the queues of a Schedule (Fidge 1988, Mattern 1989): per Step and queue, the number of
/// Steps of that queue that have ended when the Step begins.
class HappensBefore {
public:
    /// Throws InternalError if a Step waits for a later one, because the list would not be a legal order.
    explicit HappensBefore(const Schedule& schedule);

    /// Whether `earlier` has certainly ended when `later` begins.
    bool before(StepId earlier, StepId later) const
    {
        return position_[earlier.index()] < clock_[later.index() * queues_ + queue_[earlier.index()]];
    }

    /// The queue of a Step, and the Step's index among the Steps of that queue.
    std::size_t queue(StepId step) const { return queue_[step.index()]; }
    std::size_t position(StepId step) const { return position_[step.index()]; }
    std::size_t queues() const { return queues_; }
    /// The Step at a position of a queue.
    StepId step(std::size_t queue, std::size_t position) const { return StepId(steps_[queue][position]); }
    /// How many Steps of `queue` have certainly ended when `later` begins.
    std::size_t ended(StepId later, std::size_t queue) const
    {
        return clock_[later.index() * queues_ + queue];
    }
    /// The first position in `queue` whose Step begins only after `earlier` has ended; size(queue) if none.
    std::size_t first_after(StepId earlier, std::size_t queue) const;

private:
    std::size_t queues_;
    std::vector<std::size_t> queue_;              ///< of a Step
    std::vector<std::size_t> position_;           ///< of a Step, in its queue
    std::vector<std::uint32_t> clock_;            ///< by Step, then queue
    std::vector<std::vector<std::size_t>> steps_; ///< by queue: list positions
};

} // namespace trivium
