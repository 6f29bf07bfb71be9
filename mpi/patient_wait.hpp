#pragma once
// Waits for other ranks without occupying a core, and reports them to the watchdog.
#include "base/activity.hpp"
#include "base/clock.hpp"
#include "base/rank_list.hpp"

#include <thread>

namespace trivium {

/// One wait, in a polling loop.
class PatientWait {
public:
    PatientWait() = default;
    PatientWait(const PatientWait&) = delete;
    PatientWait& operator=(const PatientWait&) = delete;
    ~PatientWait()
    {
        if (told_)
            Activity::of_process().waits_for("");
    }

    /// Yields the core; from time to time reports `ranks()`.
    template <class Ranks>
    void yield(Ranks&& ranks)
    {
        std::this_thread::yield();
        if (++turns_ % 256 != 0)
            return;
        const Seconds time = now();
        if (begin_ == 0)
            begin_ = next_ = time;
        if (time < next_ + until_told)
            return;
        next_ = time;
        told_ = true;
        Activity::of_process().waits_for(print_ranks(ranks()));
    }

private:
    static constexpr Seconds until_told = 0.5;
    int turns_ = 0;
    Seconds begin_ = 0, next_ = 0;
    bool told_ = false;
};

} // namespace trivium
