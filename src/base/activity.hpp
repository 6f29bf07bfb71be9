#pragma once
// The current operation of this process: set by the working thread, read by a watchdog thread.
#include "base/units.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace trivium {

/// One object per process; every member may be called from any thread.
class Activity {
public:
    static Activity& of_process();

    /// Enters a phase of the run, such as "step 12". Counts as progress.
    void enter(const std::string& phase);
    /// Reports progress.
    void advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
    /// The phase starts piece `index` (that Step of a Schedule) or waits for it. Counts as progress.
    void at(i64 index)
    {
        piece_.store(index, std::memory_order_relaxed);
        advance();
    }
    /// Sets the function that names a piece; empty: pieces have no names. The watchdog's thread calls it
    /// until the next set_pieces() returns.
    void set_pieces(std::function<std::string(i64)> describe);
    /// The thread waits for `whom` ("rank 3"); empty: it no longer waits. Not progress.
    void waits_for(const std::string& whom);

    /// The thread is in a library call that should return at once, such as a poll of MPI; null: the call has
    /// returned. Not progress. `name` must have static storage.
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
