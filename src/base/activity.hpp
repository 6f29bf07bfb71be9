#pragma once
// The current operation of this process: set by the working thread, read by a watchdog thread.
#include "base/units.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace trivium {

class Activity {
public:
    static Activity& of_process();

    /// Enters a phase of the run, such as "step 12". Counts as progress.
    void enter(const std::string& phase);
    /// Reports progress.
    void advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
    /// Starts piece `index` of the phase (a Step of a Schedule), or waits for it. Counts as progress.
    void at(i64 index)
    {
        piece_.store(index, std::memory_order_relaxed);
        advance();
    }
    /// Names a piece by its index, also on the watchdog's thread, until it is replaced. Empty: pieces have no
    /// names.
    void set_pieces(std::function<std::string(i64)> describe);
    /// Waits for `whom` ("rank 3"); empty: no longer waits. Not progress.
    void waits_for(const std::string& whom);

    /// Names a library call that should return at once, such as a poll of MPI; null: it has returned. Not
    /// progress. The name must outlive the process.
    void calls(const char* name) { call_.store(name, std::memory_order_relaxed); }

    struct Reading {
        u64 progress = 0;
        std::string phase{}, piece{}, waits{}; ///< empty: none
        std::string call{};                    ///< a library call that has not returned
    };
    Reading read() const;

private:
    std::atomic<u64> progress_{0};
    std::atomic<i64> piece_{-1};
    std::atomic<const char*> call_{nullptr};
    mutable std::mutex mutex_; ///< guards the members below
    std::string phase_ = "the start", waits_;
    std::function<std::string(i64)> describe_;
};

} // namespace trivium
