#pragma once
// Start and end of MPI in this process.
#include "mpi/comm.hpp"
#include "mpi/launch/launch_watch.hpp"

#include <functional>
#include <memory>
#include <string>

namespace trivium {

/// Initialises MPI (MPI_THREAD_FUNNELED) if a launcher started this process, and finalises it. A process
/// without a launcher is a single rank and does not use MPI: no daemon, no delay. Construct it at the start
/// of main and keep it to the end. Prefer run_session(): the destructor waits for the other ranks, which
/// never arrive if only this one has failed.
class Session {
public:
    /// `watch`: what to do if the start hangs. \throws UserError if srun started several tasks without PMI,
    /// or if MPI does not support threads; IoError
    explicit Session(const LaunchWatchConfig& watch = {});
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// All ranks, numbered node by node; a single rank without MPI. The session owns it.
    Comm& world() const { return *world_; }
    /// Collective, when the work of a rank is done: waits for all ranks. From then on, the destructor waits
    /// for the other ranks no longer than start_limit(); then the process exits with `status`. Returns
    /// `status`.
    int end_together(int status);
    /// As end_together(), without waiting: all ranks are known to end now.
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
/// its rank and the message to stderr and ends all ranks at once with the error's exit status. If all members
/// of a group throw an error (see Agreed), only the first member prints it; if the group is the world, each
/// rank returns the status. A single rank rethrows the exception.
int run_session(const std::function<int(Session&)>& body, const LaunchWatchConfig& watch = {});

/// Name and version of the MPI library, in one line.
std::string mpi_description();

} // namespace trivium
