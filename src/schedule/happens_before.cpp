#include "schedule/happens_before.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

HappensBefore::HappensBefore(const Schedule& schedule)
    : queues_(schedule.queues.size()), queue_(schedule.steps.size()), position_(schedule.steps.size()),
      clock_(schedule.steps.size() * queues_, 0), steps_(queues_)
{
    std::vector<StepId> last(queues_);
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        std::uint32_t* clock = &clock_[i * queues_];
        const auto learn = [&](StepId other) {
            TRV_CHECK(other.index() < i, "step ", i, " waits for step ", other, ", which comes later");
            const std::uint32_t* theirs = &clock_[other.index() * queues_];
            for (std::size_t q = 0; q < queues_; ++q)
                clock[q] = std::max(clock[q], theirs[q]);
            const std::size_t q = queue_[other.index()];
            clock[q] = std::max(clock[q], static_cast<std::uint32_t>(position_[other.index()] + 1));
        };
        queue_[i] = static_cast<std::size_t>(step.queue);
        const StepId previous = last[queue_[i]];
        position_[i] = previous ? position_[previous.index()] + 1 : 0;
        if (previous)
            learn(previous);
        for (const StepId wait : step.waits)
            learn(wait);
        last[queue_[i]] = StepId(i);
        steps_[queue_[i]].push_back(i);
    }
}

std::size_t HappensBefore::first_after(StepId earlier, std::size_t queue) const
{
    const std::vector<std::size_t>& steps = steps_[queue]; // their clocks never fall
    const auto has_not_ended = [&](std::size_t later) { return !before(earlier, StepId(later)); };
    // It is usually near the first one that has not ended when `earlier` begins: farther and farther from it.
    std::size_t low = ended(earlier, queue), reach = 1;
    while (low + reach <= steps.size() && has_not_ended(steps[low + reach - 1])) {
        low += reach;
        reach *= 2;
    }
    const auto begin = steps.begin();
    const auto at = std::partition_point(
        begin + static_cast<std::ptrdiff_t>(low),
        begin + static_cast<std::ptrdiff_t>(std::min(low + reach, steps.size())), has_not_ended);
    return static_cast<std::size_t>(at - begin);
}

} // namespace trivium
