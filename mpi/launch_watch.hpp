#pragma once
// Watches over what ranks wait for while there is no watchdog: the start of MPI and of the watchdog itself,
// and the end of MPI.
#include "base/units.hpp"
#include "mpi/siblings.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace trivium {

struct LaunchWatchConfig {
    /// Notes the hang, where the run keeps such notes, and returns the exit status to end with. It may take 5
    /// s.
    std::function<int(const std::string& cause)> on_hang{};
    /// Whether the run was asked to stop, by a signal.
    std::function<bool()> asked{};
    /// Whether the launcher itself has told it to end: then nobody waits for a start.
    std::function<bool()> ended_by_launcher{};
};

/// How long ranks may wait for each other's start, by their number: a minute for a few nodes.
/// $TRIVIUM_START_LIMIT, in seconds, sets another (0: for ever).
Seconds start_limit(int ranks);

/// What a LaunchWatch decides by.
struct LaunchWait {
    Seconds waited = 0;  ///< in all, without times in which this process was stopped itself
    Seconds stopped = 0; ///< how long another rank of this node has been stopped, without a break
    Seconds asked = -1;  ///< since it was asked to stop; -1: it was not
    int before =
        0; ///< ranks of this node, neither stopped nor gone, whose turn it is to speak before this one
};
enum class LaunchVerdict { wait, hung, stop };
/// \pre limit > 0
LaunchVerdict judge(const LaunchWait& wait, Seconds limit, int rank);

/// While it lives, a thread ends the process, with a message, where `what` does not come back in time: status
/// 75, or on_hang's. Where a signal has asked to stop, it waits for 10 s only. A process that stopped before
/// the launcher could start the program in it is killed, as the launcher would wait for it; the launcher ends
/// the other ranks.
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
    std::thread thread_; ///< last: it uses the others
};

/// After the end of MPI, on all ranks: the first two of a node each leave a process behind that waits until
/// all ranks of the node are gone, for 5 s at most, and kills those that have been stopped for too long: the
/// launcher would wait for them for ever. It waits for nobody, and holds no file open.
void see_others_off();

} // namespace trivium
