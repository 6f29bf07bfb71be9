#pragma once
// Communicators: an ordered group of ranks with non-blocking transfers. mpi/collective.hpp builds all
// collectives from them. Back-ends: one rank alone, ranks as threads of one process, MPI.
//
// Between two ranks of a communicator, exchanges with the same tag match in the order in which they start,
// and so do messages with the same tag. Several transfers may run concurrently. Their memory must not change
// until they are done, and the Comm must outlive them. Pieces may be larger than 2 GiB. Only one thread of a
// rank may call (with MPI, the thread that made the Session). Every call throws IoError if the network fails
// and InternalError if sizes do not match; between threads, ThreadsFailed if another rank has failed.
#include "base/check.hpp"
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
    operator ConstPiece() const { return {data, bytes}; }
};
/// The bytes of an object without pointers.
template <class T>
Piece as_piece(T& object)
{
    return {reinterpret_cast<std::byte*>(&object), sizeof object};
}

/// A transfer in progress. Destroying it before it is done abandons it; only a failing rank may do that.
class Request {
public:
    Request() = default;
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    virtual ~Request() = default;
    /// Advances without waiting; true when done. May be called again after that.
    virtual bool test() = 0;
    /// Returns when done.
    virtual void wait() = 0;
    /// World ranks of the peers that have not done their side yet; empty if the back-end does not know them.
    /// \pre the request is not done
    virtual std::vector<int> waits_for() const { return {}; }
};

/// Thrown on the other threads if one rank has failed; run_on_threads throws the original error.
class ThreadsFailed : public Error {
public:
    ThreadsFailed();
};

class Comm {
public:
    static constexpr int message_tags = 1024;  ///< number of tags for messages
    static constexpr int control_tag = 1023;   ///< of the collectives for small values, below
    static constexpr int exchange_tags = 1024; ///< number of tags for exchanges

    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    int rank() const { return rank_; } ///< of this process in the group
    int size() const { return size_; }
    /// World rank of each member.
    const std::vector<int>& world_ranks() const { return world_ranks_; }

    /// MPI_Alltoallv: all members call it; sends sends[r] to member r and receives receives[r] from it, for
    /// every r, itself included. Pieces may be empty; sizes match on both sides. \pre both have size()
    /// entries
    virtual std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends,
                                              std::span<const Piece> receives, int tag = 0) = 0;
    /// A tag for a collective of several exchanges, so that it may overlap with other collectives. All
    /// members take tags in the same order; tag 0 is never taken.
    int take_tag() { return last_tag_ = last_tag_ % (exchange_tags - 1) + 1; }

    /// Sends a message to member `to` with `tag` (0 to 1023). Messages with the same tag stay in order.
    virtual std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) = 0;
    virtual std::unique_ptr<Request> receive(int from, int tag, Piece piece) = 0;

    // For the host's control. All members start these two in the same order; several may run concurrently.

    /// Bitwise or of all members' `flags`, in place; `flags` must exist until the request is done.
    virtual std::unique_ptr<Request> any(u64& flags);
    /// Copies member 0's piece to all members. \pre the same size on all members
    virtual std::unique_ptr<Request> broadcast(Piece piece);

    /// All members call it, each with the members of its new group (ranks of this Comm, ascending). The
    /// groups of one call are disjoint. \pre the caller is a member of its group
    virtual std::unique_ptr<Comm> subgroup(const std::vector<int>& members) = 0;

protected:
    Comm(int rank, std::vector<int> world_ranks)
        : rank_(rank), size_(static_cast<int>(world_ranks.size())), world_ranks_(std::move(world_ranks))
    {
    }
    /// For exchange(): checks the arguments and copies the piece that this rank sends to itself.
    void keep_own(std::span<const ConstPiece> sends, std::span<const Piece> receives, int tag) const;
    /// For send() and receive().
    void check_peer(int peer, int tag) const;
    /// For subgroup(): this rank's index in `members`. \throws InternalError if they are not a valid group
    int place_among(const std::vector<int>& members) const;
    std::vector<int> in_world(const std::vector<int>& members) const;

private:
    int rank_, size_, last_tag_ = 0;
    std::vector<int> world_ranks_;
};

/// A communicator of one rank, with this world rank.
std::unique_ptr<Comm> make_self_comm(int world_rank = 0);

/// Runs `body` on `ranks` threads of this process, each with a Comm of all threads. Returns when all are
/// done. If one throws, pending and later transfers of the others throw ThreadsFailed, and the first error is
/// rethrown here. The same happens if a rank waits for one that has returned (InternalError), where processes
/// would hang.
void run_on_threads(int ranks, const std::function<void(Comm&)>& body);

// Collectives for small values of the host. All members call them. A rank sends and receives O(log ranks)
// messages.

/// Member 0's text, on all members.
std::string share_text(Comm& comm, const std::string& text);
/// Each member's text, by rank, on rank 0; empty on the other ranks.
std::vector<std::string> gather_to_first(Comm& comm, const std::string& text);
/// Each member's text, by rank, on all members.
std::vector<std::string> gather_texts(Comm& comm, const std::string& text);
/// Bitwise or of all members' `flags`: events to which all must react (a signal, a failure).
u64 agree(Comm& comm, u64 flags);

/// agree() in two halves: the constructor starts it, wait() completes it, and other work may run in between.
class Agreement {
public:
    Agreement(Comm& comm, u64 flags) : flags_(flags), request_(comm.any(flags_)) {}
    Agreement(const Agreement&) = delete; // the transfer uses its members
    Agreement& operator=(const Agreement&) = delete;
    u64 wait() ///< once
    {
        request_->wait();
        return flags_;
    }

private:
    u64 flags_;
    std::unique_ptr<Request> request_;
};

/// Marks an Error that all members of a group throw. It is also a UserError, an IoError or an InternalError.
class Agreed {
public:
    Agreed(int rank, int members) : rank_(rank), members_(members) {}
    virtual ~Agreed() = default;
    int rank() const { return rank_; } ///< this member's rank in the group
    int members() const { return members_; }

private:
    int rank_, members_;
};

/// Runs `work` on every member. If it throws on some, all members throw the error of the lowest such rank,
/// marked as Agreed: a UserError, IoError, InternalError or Error (no derived class) with the same exit
/// status. Its message begins with "rank N: " (world rank), unless all members have the same error. An
/// exception that is not an Error becomes an InternalError, std::bad_alloc an IoError.
void succeed_together(Comm& comm, const std::function<void()>& work);

} // namespace trivium
