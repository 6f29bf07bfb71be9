#pragma once
// Communicators between devices: a group of ranks in an order, whose moves are work on a stream. A call
// returns when its work is enqueued; the host never waits for a peer. Back-ends: NCCL (mpi/nccl.hpp), and one
// of threads in the tests.
//
// `stream` is the back-end's own (cudaStream_t). Memory is the device's; it must stay as it is until the work
// is done. The moves of one communicator go on one stream at a time, in the same order on all its members.
// Moves that are to go on at the same time, and messages of two directions, need communicators of their own:
// those of one take turns. Pieces of any size travel, above 2 GiB too. \throws IoError where the device or
// the network fails, at once or from a later check()
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// One tensor of a native collective: parts of the same `count` of elements on every rank.
///   all_gather: in [count] -> out [ranks * count]   reduce_scatter: in [ranks * count] -> out [count]
///   all_reduce: in, out [count]
struct DenseMove {
    const void* in = nullptr;
    void* out = nullptr; ///< all_reduce: may be `in`; all_gather: `in` may be the own part of it
    i64 count = 0;
};

inline constexpr u64 use_exchange = 8;
constexpr u64 use_of(CollectiveKind kind) { return u64{1} << static_cast<int>(kind); }

class DeviceComm {
public:
    DeviceComm(const DeviceComm&) = delete;
    DeviceComm& operator=(const DeviceComm&) = delete;
    virtual ~DeviceComm() = default;

    int rank() const { return rank_; } ///< of this process in the group
    int size() const { return size_; }

    /// Sends sends[r] to member r and fills receives[r] from it, for every other r. Pieces may be empty;
    /// sizes fit on both sides. \pre both have size() entries, and this rank's own are empty
    virtual void exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                          void* stream) = 0;
    /// One message, to or from another member.
    virtual void send(int to, ConstPiece piece, void* stream) = 0;
    virtual void receive(int from, Piece piece, void* stream) = 0;
    /// The back-end's own collectives, sums in an order of its own; all of `moves` at once. Any type for
    /// all_gather.
    virtual void collective(CollectiveKind kind, DType type, std::span<const DenseMove> moves,
                            void* stream) = 0;

    /// Notes that the collectives of this rank will take these (bits: use_of(kind), use_exchange).
    void plan(u64 uses) { planned_ |= uses; }
    u64 planned() const { return planned_; }
    /// Makes the connections that `uses` take, so that no later call waits for a peer. All members call it
    /// with the same bits; the host waits for them. A link is connected when it is made.
    virtual void connect(u64 uses) = 0;

    // Work on the own device alone.
    /// Blocks may be many, but do not overlap; addresses and strides are multiples of 2.
    virtual void copy(std::span<const CopyBlock> blocks, void* stream) = 0;
    virtual void combine(const Combination& combination, void* stream) = 0;

    /// Says what went wrong since the last call, without waiting.
    virtual void check() const = 0;
    /// Gives up what is under way, for a rank that fails: its peers may never come. No call but the
    /// destructor may follow.
    virtual void abandon() = 0;

protected:
    DeviceComm(int ranks, int rank) : rank_(rank), size_(ranks) {}
    void check_pieces(std::span<const ConstPiece> sends, std::span<const Piece> receives) const
    {
        const auto own = static_cast<std::size_t>(rank_);
        TRV_CHECK(sends.size() == static_cast<std::size_t>(size_) && receives.size() == sends.size() &&
                      sends[own].bytes == 0 && receives[own].bytes == 0,
                  "pieces for ", sends.size(), " ranks of ", size_);
    }
    void check_peer(int peer) const
    {
        TRV_CHECK(peer >= 0 && peer < size_ && peer != rank_, "a message of rank ", rank_, " with rank ",
                  peer);
    }

private:
    int rank_, size_;
    u64 planned_ = 0;
};

/// What a communicator is for: a link carries messages from its rank 0 to its rank 1 alone, and takes less of
/// a device.
enum class DeviceGroup { all, link };

/// Makes communicators. They outlive it, but not the back-end's library or device.
class DeviceBackend {
public:
    virtual ~DeviceBackend() = default;
    /// What the members of a communicator find each other by: one makes it, the others are told.
    virtual std::string make_id() = 0;
    /// Returns when all members have called it. One rank alone needs no id.
    virtual std::unique_ptr<DeviceComm> join(const std::string& id, int ranks, int rank,
                                             DeviceGroup group) = 0;
};

} // namespace trivium
