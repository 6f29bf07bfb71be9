#pragma once
// The life of MPI in this process.
#include "mpi/comm.hpp"
#include "mpi/launch_watch.hpp"

#include <functional>
#include <memory>
#include <string>

namespace trivium {

/// Starts MPI (MPI_THREAD_FUNNELED) where a launcher started this process, and ends it. Started alone, a
/// process is one rank and MPI stays asleep: no daemon, no delay. Make one first in main and keep it to the
/// end; best by run_session(), since its destructor waits for the other ranks, which do not come where only
/// this one has failed.
class Session {
public:
    /// `watch`: what a start that does not come to its end leaves behind.
    explicit Session(const LaunchWatchConfig& watch = {});
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// All ranks, numbered node by node; of this one alone where MPI sleeps. The session owns it.
    Comm& world() const { return *world_; }
    /// Waits for all ranks, which all call it when their work is done; then each rank's end waits for the
    /// others' no longer than a start does. Returns `status`.
    int end_together(int status);
    /// The same, where all ranks are known to end now.
    int ends_with(int status) { return status_ = status; }
    /// Ends all ranks at once with `exit_status`; the message is this rank's to print first.
    [[noreturn]] void abort(int exit_status) const;

private:
    int rank_ = 0, ranks_ = 1;
    bool started_ = false;
    int status_ = -1; ///< that all ranks end with, once they do
    std::unique_ptr<Comm> world_;
};

/// Runs `body` in a session and returns its status. Where one of several ranks throws, it prints "trivium: "
/// and the message to stderr and ends all ranks at once with the error's exit status. An error that all
/// members of a group throw alike (see Agreed) is printed by its first alone; where the group is the world,
/// each rank returns the status. A rank that is alone lets the exception pass.
int run_session(const std::function<int(Session&)>& body, const LaunchWatchConfig& watch = {});

/// The MPI library's own description, one line.
std::string mpi_description();

} // namespace trivium
