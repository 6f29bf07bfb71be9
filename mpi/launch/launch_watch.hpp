#pragma once
// Detects hangs while there is no watchdog: during the start of MPI and of the watchdog, and the end of MPI.
#include "base/units.hpp"
#include "mpi/launch/siblings.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace trivium {

struct LaunchWatchConfig {
    /// Records the hang and returns the exit status. May take 5 s.
    std::function<int(const std::string& cause)> on_hang{};
    /// Whether a signal asked the run to stop.
    std::function<bool()> asked{};
    /// Whether the launcher told the run to end: then it does not wait for the start.
    std::function<bool()> ended_by_launcher{};
};

/// How long ranks may wait for each other's start, by their number: about a minute for a few nodes.
/// $TRIVIUM_START_LIMIT, in seconds, overrides it (0: no limit).
Seconds start_limit(int ranks);

/// Input of a LaunchWatch's decision.
struct LaunchWait {
    Seconds waited = 0;  ///< total, without times in which this process was stopped
    Seconds stopped = 0; ///< how long another rank of this node has been stopped, without a break
    Seconds asked = -1;  ///< since a request to stop; -1: none
    int before = 0;      ///< running ranks of this node that report before this one
};
enum class LaunchVerdict { wait, hung, stop };
/// \pre limit > 0
LaunchVerdict judge(const LaunchWait& wait, Seconds limit, int rank);

/// During its lifetime, a thread ends the process with a message if `what` does not finish in time: status
/// 75, or that of on_hang. After a signal that asks to stop, the limit is 10 s. A process that stopped before
/// the launcher could start the program in it is killed, because the launcher would wait for it; the launcher
/// ends the other ranks.
class LaunchWatch {
public:
    LaunchWatch(const char* what, LaunchWatchConfig config);
    LaunchWatch(const LaunchWatch&) = delete;
    LaunchWatch& operator=(const LaunchWatch&) = delete;
    ~LaunchWatch();

private:
    void run();
    [[noreturn]] void end_hung(const std::vector<Sibling>& others, Seconds waited) const;

    const char* what_;
    LaunchWatchConfig config_;
    LaunchId launch_;
    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    std::thread thread_; ///< last member, because it uses the others
};

/// After the end of MPI, on all ranks: the first two of a node each fork a process that waits until all ranks
/// of the node have exited, for at most 5 s, and kills those that were stopped for too long, because the
/// launcher would wait for them forever. Does not block and keeps no file open.
void reap_stopped_ranks();

} // namespace trivium
