#pragma once
// Ends a run that receives a signal during its start: there is nothing to save yet, and compiling, allocating
// or reading may take minutes.
#include "lifecycle/signals.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace trivium {

/// A thread on every rank. On a signal that requests a stop, rank 0 ends its process with status 75 at once;
/// another rank does so after 1.5 s, if rank 0 has not ended it. The launcher or the watchdog ends the other
/// ranks.
class StartGuard {
public:
    /// `signals` must outlive it.
    StartGuard(const RunSignals& signals, int rank);
    StartGuard(const StartGuard&) = delete;
    StartGuard& operator=(const StartGuard&) = delete;
    ~StartGuard() { release(); }

    /// Call it when log_dir/launches.jsonl has an entry for this launch: from then on, a signal completes
    /// that entry.
    void launch_began(const std::string& log_dir);
    /// From now on, the run itself handles signals. Returns when the thread has ended. May be called again.
    void release();

private:
    void run();
    [[noreturn]] void end_run(int signal);

    const RunSignals& signals_;
    int rank_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool released_ = false; ///< under mutex_
    std::string log_dir_;   ///< under mutex_; empty: no launch has begun
    std::thread thread_;    ///< last: it uses all the others
};

} // namespace trivium
