#pragma once
// Communicators between devices: an ordered group of ranks whose transfers are work on a stream. A call
// returns when its work is enqueued; the host waits for peers only in join() and connect(). Back-ends: NCCL
// (mpi/nccl.hpp), and threads in the tests.
//
// `stream` is the back-end's type (Exec::stream). Memory is on the device and must not change until the work
// is done. The transfers of one communicator use one stream at a time, in the same order on all members, and
// run one after the other. Concurrent transfers, and messages of two directions, need separate communicators.
// Pieces may be larger than 2 GiB. \throws IoError if the device or the network fails, at once or from a
// later check()
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// One tensor of a native collective: every rank's shard has the same `count` of elements.
///   all_gather: in [count] -> out [ranks * count]   reduce_scatter: in [ranks * count] -> out [count]
///   all_reduce: in, out [count]
struct DenseMove {
    const void* in = nullptr;
    void* out = nullptr; ///< all_reduce: may be `in`; all_gather: may contain `in` as this rank's shard
    i64 count = 0;
};

/// Bits of plan() and connect().
inline constexpr u64 use_exchange = 8;
constexpr u64 use_of(CollectiveKind kind) { return u64{1} << static_cast<int>(kind); }

class DeviceComm {
public:
    DeviceComm(const DeviceComm&) = delete;
    DeviceComm& operator=(const DeviceComm&) = delete;
    virtual ~DeviceComm() = default;

    int rank() const { return rank_; } ///< of this process in the group
    int size() const { return size_; }

    /// Sends sends[r] to member r and receives receives[r] from it, for every other r. Pieces may be empty;
    /// sizes match on both sides. \pre both have size() entries, and those of this rank are empty
    virtual void exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                          void* stream) = 0;
    /// One message to or from another member.
    virtual void send(int to, ConstPiece piece, void* stream) = 0;
    virtual void receive(int from, Piece piece, void* stream) = 0;
    /// The back-end's own collective of all `moves` in one operation; reductions are sums, in the back-end's
    /// order. all_gather takes any type that tensors have (is_tensor_type).
    virtual void collective(CollectiveKind kind, DType type, std::span<const DenseMove> moves,
                            void* stream) = 0;

    /// Records which collectives this rank will use (bits: use_of(kind), use_exchange).
    void plan(u64 uses) { planned_ |= uses; }
    u64 planned() const { return planned_; }
    /// Collective, with the same bits on all members: makes the connections for `uses`, so that no later call
    /// waits for a peer. The host waits for all members. join() has already connected a link.
    virtual void connect(u64 uses) = 0;

    // Work on this rank's device only.
    /// Blocks must not overlap; addresses and strides are multiples of 2.
    virtual void copy(std::span<const CopyBlock> blocks, void* stream) = 0;
    virtual void combine(const Combination& combination, void* stream) = 0;

    /// Throws IoError if the device or the network has failed since the last call; does not wait.
    virtual void check() const = 0;
    /// Abandons running transfers of a failing rank, because its peers may never arrive. Only the destructor
    /// may follow.
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

/// Purpose of a communicator. A link only carries messages from its rank 0 to its rank 1 and needs fewer
/// device resources.
enum class DeviceGroup { all, link };

/// Makes communicators. They may outlive it, but not the back-end's library or device.
class DeviceBackend {
public:
    virtual ~DeviceBackend() = default;
    /// An id by which the members of one communicator find each other: one member makes it and sends it to
    /// the others.
    virtual std::string make_id() = 0;
    /// Makes the communicator `id` for member `rank`. Returns when all `ranks` members have called it. A
    /// single rank needs no id.
    virtual std::unique_ptr<DeviceComm> join(const std::string& id, int ranks, int rank,
                                             DeviceGroup group) = 0;
};

} // namespace trivium
