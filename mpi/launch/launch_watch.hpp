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
    /// Records the hang and returns the exit status. Runs on its own thread; after 5 s the process ends
    /// without it.
    std::function<int(const std::string& cause)> on_hang{};
    /// Whether a signal has requested a stop.
    std::function<bool()> asked{};
    /// Whether the launcher told the run to end: then the process ends without waiting for the start.
    std::function<bool()> ended_by_launcher{};
};

/// How long ranks may wait for each other's start, by their number: about a minute for a few nodes.
/// $TRIVIUM_START_LIMIT, in seconds, overrides it (0: no limit, and no LaunchWatch).
Seconds start_limit(int ranks);

/// The input of judge().
struct LaunchWait {
    Seconds waited = 0;  ///< since the start, or since this process itself was last stopped
    Seconds stopped = 0; ///< how long another rank of this node has been stopped, without a break
    Seconds asked = -1;  ///< since a request to stop; -1: none
    int before = 0;      ///< running ranks of this node with lower numbers, which report before this one
};
enum class LaunchVerdict { wait, hung, stop };
/// The ranks' limits differ, so that only one reports. \pre limit > 0
LaunchVerdict judge(const LaunchWait& wait, Seconds limit, int rank);

/// While it exists, a thread ends the process with a message if `what` does not finish in time: status 75, or
/// the status that on_hang returns. After a signal that requests a stop, the limit is 10 s. It also kills a
/// process that was stopped before the launcher could start the program in it, because the launcher would
/// wait for that process; the launcher ends the other ranks.
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

/// For all ranks, after the end of MPI: the first two ranks of a node each fork a helper that waits until all
/// ranks of the node have exited, or for 5 s if none is stopped. The helper kills ranks that have been
/// stopped for 30 s (at most start_limit()), because the launcher would wait for them forever. The call does
/// not block, and the helper keeps no file open.
void reap_stopped_ranks();

} // namespace trivium
