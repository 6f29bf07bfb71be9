#pragma once
// Other processes on the cores of a run: its threads are then often preempted.
#include "base/units.hpp"

namespace trivium {

/// From the number of times that the system took a core from a thread of this process (ru_nivcsw of
/// getrusage). On cores of its own that happens a few times per second; with a second thread that computes,
/// at each slice of the scheduler: 100 to 300 times.
class CoreWatch {
public:
    static constexpr Seconds window = 10;
    static constexpr double most_per_second = 50; ///< of a thread

    /// After each step of `seconds`. True once: in the last window the threads were preempted more often.
    /// `preemptions`: of the process so far.
    bool notices(Seconds seconds, i64 preemptions, int threads)
    {
        if (before_ >= 0)
            seconds_ += seconds;
        else
            before_ = preemptions; // a window begins
        if (reported_ || seconds_ < window)
            return false;
        reported_ = static_cast<double>(preemptions - before_) > most_per_second * seconds_ * threads;
        seconds_ = 0;
        before_ = preemptions;
        return reported_;
    }

private:
    Seconds seconds_ = 0; ///< of the window
    i64 before_ = -1;     ///< preemptions before it
    bool reported_ = false;
};

} // namespace trivium
