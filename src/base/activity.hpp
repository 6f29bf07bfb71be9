#pragma once
// What this process is at: told by the thread that works, read by a watchdog on another.
#include "base/units.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace trivium {

class Activity {
public:
    static Activity& of_process();

    /// A new phase of the run, such as "step 12". Progress.
    void enter(const std::string& phase);
    /// Some work was done.
    void advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
    /// Begins with piece `index` of the phase's work, or waits for it to end (a Step of a Schedule).
    /// Progress.
    void at(i64 index)
    {
        piece_.store(index, std::memory_order_relaxed);
        advance();
    }
    /// What tells a piece by its index, also on the watchdog's thread, until it is replaced; empty: the
    /// pieces have no names.
    void set_pieces(std::function<std::string(i64)> describe);
    /// It has waited for a while, for `whom` ("rank 3"); empty: no more. No progress.
    void waits_for(const std::string& whom);

    struct Reading {
        u64 progress = 0;
        std::string phase{}, piece{}, waits{}; ///< empty: none
    };
    Reading read() const;

private:
    std::atomic<u64> progress_{0};
    std::atomic<i64> piece_{-1};
    mutable std::mutex mutex_; ///< of what follows
    std::string phase_ = "the start", waits_;
    std::function<std::string(i64)> describe_;
};

} // namespace trivium
