#pragma once
// Collectives on a stream: those of mpi/collective.hpp, with the same operands, scratch and results.
#include "mpi/device_comm.hpp"

namespace trivium {

/// A collective with its memory bound, that may run many times. Three ways, the same on all members:
///   native:  the back-end's own collective. Gathers where every operand is cut evenly along its first
///   dimension; sums
///            of f32 and f64 so cut (an all_reduce needs no cut) where not `deterministic`. The order of its
///            sums is the back-end's: within 1e-6 of the sum of magnitudes for f32, and not the same bits for
///            other buckets.
///   gather:  an all_reduce that is small: every rank gathers all contributions and combines them itself.
///   rounds:  all else, as on the host.
/// The last two combine in the order of the ranks as the host does: a sum's bits are the host's, and bf16 is
/// added in f32 and rounded once in either mode. lse has the device's exp and log1p.
class DeviceCollective {
public:
    enum class Way { native, gather, rounds };

    /// \pre scratch as for Collective, in memory of the device
    /// \throws InternalError where not, and for a reduction of i32
    DeviceCollective(DeviceComm& comm, CollectiveShape shape, Piece scratch, bool deterministic);

    /// Puts it on the stream. All members enqueue their collectives of one DeviceComm in the same order.
    void enqueue(void* stream);

    Way way() const { return way_; }

private:
    void plan_gather(Piece scratch);

    DeviceComm& comm_;
    CollectiveRounds rounds_;
    Round round_;
    Way way_ = Way::rounds;
    std::vector<DenseMove> moves_; ///< native, and of a gather
    Round gather_;                 ///< its pack and combination
};

} // namespace trivium
