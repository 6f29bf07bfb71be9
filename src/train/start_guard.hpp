#pragma once
// Ends a run that is asked to stop while it starts: nothing can be lost yet, and to compile, to allocate or
// to read may take minutes.
#include "train/signals.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace trivium {

/// A thread on every rank. On a signal to stop it ends this process with status 75, rank 0 at once, the
/// others where rank 0 has not ended them by then; the launcher, or the watchdog, ends the rest.
class StartGuard {
public:
    /// `signals` must outlive it.
    StartGuard(const RunSignals& signals, int rank);
    StartGuard(const StartGuard&) = delete;
    StartGuard& operator=(const StartGuard&) = delete;
    ~StartGuard() { release(); }

    /// The launch is in log_dir/launches.jsonl: its end has to be there too.
    void launch_began(const std::string& log_dir);
    /// From now on the run itself obeys signals. Returns once the thread has ended.
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
