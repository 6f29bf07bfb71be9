#pragma once
// The life of MPI in this process.
#include <string>

namespace trivium {

/// Starts MPI (MPI_THREAD_FUNNELED) where a launcher started this process, and ends it. Started alone, a process
/// is one rank and MPI stays asleep: no daemon, no delay. Make one first in main and keep it to the end.
class Session {
public:
    Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// Ends all ranks at once with `exit_status`; the message is this rank's to print first.
    [[noreturn]] void abort(int exit_status) const;

private:
    int rank_ = 0, ranks_ = 1;
    bool started_ = false;
};

/// The MPI library's own description, one line.
std::string mpi_description();

} // namespace trivium
