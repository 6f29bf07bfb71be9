#pragma once
// Start and end of MPI in this process.
#include "mpi/comm.hpp"
#include "mpi/launch/launch_watch.hpp"

#include <functional>
#include <memory>
#include <string>

namespace trivium {

/// Initialises MPI (MPI_THREAD_FUNNELED) if a launcher started this process, and finalises it. A process
/// without a launcher is a single rank and does not use MPI: no daemon, no delay. Make one first in main and
/// keep it to the end. Prefer run_session(): the destructor waits for the other ranks, which never arrive if
/// only this one has failed.
class Session {
public:
    /// `watch`: what to do if the start hangs.
    explicit Session(const LaunchWatchConfig& watch = {});
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// All ranks, numbered node by node; a single rank without MPI. The session owns it.
    Comm& world() const { return *world_; }
    /// All ranks call it when their work is done; waits for all. After that, the end of each rank waits for
    /// the others no longer than a start does. Returns `status`.
    int end_together(int status);
    /// The same, if all ranks are known to end now.
    int ends_with(int status) { return status_ = status; }
    /// Ends all ranks at once with `exit_status`. Print the message first.
    [[noreturn]] void abort(int exit_status) const;

private:
    int rank_ = 0, ranks_ = 1;
    bool started_ = false;
    int status_ = -1; ///< exit status of all ranks, once they end
    std::unique_ptr<Comm> world_;
};

/// Runs `body` in a session and returns its status. If one of several ranks throws, it prints "trivium: ",
/// its rank and the message to stderr and ends all ranks at once with the error's exit status. Only the first
/// member prints an error that all members of a group throw (see Agreed); if the group is the world, each
/// rank returns the status. A single rank rethrows the exception.
int run_session(const std::function<int(Session&)>& body, const LaunchWatchConfig& watch = {});

/// One line of the MPI library's description.
std::string mpi_description();

} // namespace trivium
