#pragma once
// Detects other processes on the cores of a run: they often preempt its threads.
#include "base/units.hpp"

namespace trivium {

/// Counts the preemptions of this process's threads (ru_nivcsw of getrusage). On a core of its own, a thread
/// is preempted a few times per second; with a second thread that computes there, at each slice of the
/// scheduler: 100 to 300 times.
class CoreWatch {
public:
    static constexpr Seconds window = 10;
    static constexpr double most_per_second = 50; ///< per thread

    /// Call it after each step of `seconds`. Returns true once: after a window with more preemptions than
    /// most_per_second. `preemptions`: of the process so far.
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
    i64 before_ = -1;     ///< preemptions before the window
    bool reported_ = false;
};

} // namespace trivium
