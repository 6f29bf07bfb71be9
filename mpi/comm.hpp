#pragma once
// Communicators: a group of ranks in an order, and the non-blocking moves between them that every collective
// is made of (mpi/collective.hpp). Back-ends: one rank alone, ranks as threads of one process, MPI.
//
// Between two ranks of a communicator, exchanges of one lane match in the order in which they are started,
// and so do messages of one channel. Several may be under way at once. The memory named must stay as it is
// until the end of the move. Pieces of any size travel, above 2 GiB too. One thread of a rank calls. Any call
// throws IoError where the network fails and InternalError where sizes do not fit; between threads,
// ThreadsFailed where another has failed.
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
};

/// A move that was started. Destroying one that is not over is for a rank that fails: the move is given up,
/// and the run with it.
class Request {
public:
    Request() = default;
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    virtual ~Request() = default;
    /// Drives it on without waiting; true once it is over. May be called again then.
    virtual bool test() = 0;
    /// Returns when it is over.
    virtual void wait() = 0;
    /// The ranks of the world that it still waits for, as far as the back-end can tell. Not after it
    /// is over.
    virtual std::vector<int> waits_for() const { return {}; }
};

/// What the other ranks get where one that is a thread has failed; run_on_threads throws the failure itself.
class ThreadsFailed : public Error {
public:
    ThreadsFailed();
};

class Comm {
public:
    static constexpr int channels = 1024; ///< of messages
    static constexpr int lanes = 1024;    ///< of exchanges

    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    int rank() const { return rank_; } ///< of this process in the group
    int size() const { return size_; }
    /// Where in the world the group's members stand.
    const std::vector<int>& world_ranks() const { return world_ranks_; }

    /// All members call it: sends sends[r] to member r and fills receives[r] from it, for every r, itself
    /// included. Pieces may be empty; sizes fit on both sides. \pre both have size() entries
    virtual std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends,
                                              std::span<const Piece> receives, int lane = 0) = 0;
    /// A lane for a collective of several exchanges, so that it may overlap with others that advance at
    /// another pace. All members take lanes in the same order; lane 0 is never taken.
    int take_lane() { return last_lane_ = last_lane_ % (lanes - 1) + 1; }

    /// One message to member `to` on `channel` (0 to 1023: messages of one channel stay in order).
    virtual std::unique_ptr<Request> send(int to, int channel, ConstPiece piece) = 0;
    virtual std::unique_ptr<Request> receive(int from, int channel, Piece piece) = 0;

    /// All members call it, each with the members (ranks of this Comm, ascending) of its own new group. The
    /// groups of one call are disjoint. \pre the caller is a member of its group
    virtual std::unique_ptr<Comm> subgroup(const std::vector<int>& members) = 0;

protected:
    Comm(int rank, std::vector<int> world_ranks)
        : rank_(rank), size_(static_cast<int>(world_ranks.size())), world_ranks_(std::move(world_ranks))
    {
    }
    /// For exchange(): checks the arguments, and copies what this rank sends to itself.
    void keep_own(std::span<const ConstPiece> sends, std::span<const Piece> receives, int lane) const;
    /// For send() and receive().
    void check_peer(int peer, int channel) const;
    /// For subgroup(): this rank's place among `members`. \throws InternalError where they make no group
    int place_among(const std::vector<int>& members) const;
    std::vector<int> in_world(const std::vector<int>& members) const;

private:
    int rank_, size_, last_lane_ = 0;
    std::vector<int> world_ranks_;
};

/// One rank alone, which has this number in the world.
std::unique_ptr<Comm> make_self_comm(int world_rank = 0);

/// Runs `body` on `ranks` threads of this process, each with its Comm of all of them. Returns when all are
/// done. Where one throws, the others' pending and later moves throw too; then the first error is thrown
/// here. So it is where one waits for another that has returned (InternalError): ranks that would hang
/// between processes fail as threads.
void run_on_threads(int ranks, const std::function<void(Comm&)>& body);

// Small values of the host, by exchange. All members call them.

/// Each member's text, by rank.
std::vector<std::string> gather_texts(Comm& comm, const std::string& text);
/// Each member's text on rank 0; empty ones on the others. (Of a thousand ranks, it is much for each to have
/// all.)
std::vector<std::string> gather_to_first(Comm& comm, const std::string& text);
/// Each member's number, by rank.
std::vector<u64> gather_numbers(Comm& comm, u64 number);
/// The bits that any member has set: what all have to do something about (a signal, a failure).
u64 agree(Comm& comm, u64 flags);

/// Marks an Error that all members of a group throw alike. It is a UserError, an IoError or an InternalError
/// too.
class Agreed {
public:
    Agreed(int rank, int members) : rank_(rank), members_(members) {}
    virtual ~Agreed() = default;
    int rank() const { return rank_; } ///< of this one among them
    int members() const { return members_; }

private:
    int rank_, members_;
};

/// Runs `work` on every member. Where it throws on some, all throw the error of the lowest such rank: of the
/// same kind and exit status, marked as Agreed. Its message begins with "rank N: ", a rank of the world,
/// unless all met the same. An exception that is no Error arrives as an InternalError, std::bad_alloc as an
/// IoError.
void succeed_together(Comm& comm, const std::function<void()>& work);

} // namespace trivium
