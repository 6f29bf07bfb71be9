#pragma once
// Waits for other ranks without occupying a core, and reports them to the watchdog.
#include "base/activity.hpp"
#include "base/clock.hpp"
#include "base/rank_list.hpp"

#include <algorithm>
#include <chrono>
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

    /// Yields the core; after 50 ms of waiting, sleeps instead: for a thousandth of the time it has waited,
    /// from 0.1 ms to 1 ms. Reports the world ranks `ranks()` every 0.5 s.
    template <class Ranks>
    void yield(Ranks&& ranks)
    {
        if (sleep_ > 0)
            std::this_thread::sleep_for(std::chrono::duration<double>(sleep_));
        else
            std::this_thread::yield();
        if (++turns_ % 256 != 0)
            return;
        const Seconds time = now();
        if (begin_ == 0)
            begin_ = next_ = time;
        if (time > begin_ + until_long)
            sleep_ = std::clamp((time - begin_) / 1000, 1e-4, 1e-3);
        if (time < next_ + until_told)
            return;
        next_ = time;
        told_ = true;
        Activity::of_process().waits_for(print_ranks(ranks()));
    }

private:
    static constexpr Seconds until_long = 0.05, until_told = 0.5;
    int turns_ = 0;
    Seconds begin_ = 0, next_ = 0, sleep_ = 0;
    bool told_ = false;
};

} // namespace trivium
