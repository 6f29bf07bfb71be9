#pragma once
// Waits for other ranks without occupying a core, and reports them to the watchdog.
#include "base/activity.hpp"
#include "base/clock.hpp"
#include "base/rank_list.hpp"

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

    /// Yields the core; after 50 ms of waiting, sleeps for 100 us instead. Reports the world ranks `ranks()`
    /// every 0.5 s.
    template <class Ranks>
    void yield(Ranks&& ranks)
    {
        if (is_long_)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        else
            std::this_thread::yield();
        if (++turns_ % 256 != 0)
            return;
        const Seconds time = now();
        if (begin_ == 0)
            begin_ = next_ = time;
        is_long_ = time > begin_ + until_long;
        if (time < next_ + until_told)
            return;
        next_ = time;
        told_ = true;
        Activity::of_process().waits_for(print_ranks(ranks()));
    }

private:
    static constexpr Seconds until_long = 0.05, until_told = 0.5;
    int turns_ = 0;
    Seconds begin_ = 0, next_ = 0;
    bool is_long_ = false, told_ = false;
};

} // namespace trivium
