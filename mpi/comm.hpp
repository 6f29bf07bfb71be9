#pragma once
// Communicators: a group of ranks in an order, and the non-blocking moves between them that every collective is
// made of (mpi/collective.hpp). Back-ends: one rank alone, ranks as threads of one process, MPI.
//
// Between two ranks of a communicator, exchanges match in the order in which they are started, and so do messages
// of one channel. Several may be under way at once. The memory named must stay as it is until the end of the move.
// Any call throws IoError where the network fails, and ThreadsFailed (a back-end's own Error) where another rank
// has failed already.
#include "base/units.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trivium {

struct ConstPiece {
    const std::byte* data = nullptr;
    Bytes bytes = 0;
};
struct Piece {
    std::byte* data = nullptr;
    Bytes bytes = 0;
};

/// A move that was started. Destroying one that is not over is an error.
class Request {
public:
    virtual ~Request() = default;
    /// Drives it on without waiting; true once it is over. May be called again then.
    virtual bool test() = 0;
    /// Returns when it is over.
    virtual void wait() = 0;
};

class Comm {
public:
    virtual ~Comm() = default;

    int rank() const { return rank_; } ///< of this process in the group
    int size() const { return size_; }
    /// Where in the world the group's members stand.
    const std::vector<int>& world_ranks() const { return world_ranks_; }

    /// All members call it: sends sends[r] to member r and fills receives[r] from it, for every r, itself included.
    /// Pieces may be empty; sizes fit on both sides. \pre both have size() entries
    virtual std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives) = 0;
    /// One message to member `to` on `channel` (0 to 1023: messages of one channel stay in order).
    virtual std::unique_ptr<Request> send(int to, int channel, ConstPiece piece) = 0;
    virtual std::unique_ptr<Request> receive(int from, int channel, Piece piece) = 0;

    /// All members call it, each with the members (ranks of this Comm, ascending) of its own new group.
    virtual std::unique_ptr<Comm> subgroup(const std::vector<int>& members) = 0;

protected:
    Comm(int rank, std::vector<int> world_ranks) : rank_(rank), size_(static_cast<int>(world_ranks.size())), world_ranks_(std::move(world_ranks)) {}

private:
    int rank_, size_;
    std::vector<int> world_ranks_;
};

/// One rank alone.
std::unique_ptr<Comm> make_self_comm();

/// Runs `body` on `ranks` threads of this process, each with its Comm of all of them. Returns when all are done.
/// Where one throws, the others' pending and later moves throw too; then the first error is thrown here.
void run_on_threads(int ranks, const std::function<void(Comm&)>& body);

// Small values of the host, by exchange. All members call them.

/// Each member's text, by rank.
std::vector<std::string> gather_texts(Comm& comm, const std::string& text);
/// The bits that any member has set: what all have to do something about (a signal, a failure).
u64 agree(Comm& comm, u64 flags);
/// Runs `work` on every member. Where it throws an Error on some, all throw that of the lowest such rank, with the
/// same exit status (the message names the rank where the group has more than one).
void succeed_together(Comm& comm, const std::function<void()>& work);

} // namespace trivium
