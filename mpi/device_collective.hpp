#pragma once
// Collectives on a stream: those of mpi/collective.hpp, with the same operands, scratch and results.
#include "mpi/device_comm.hpp"

namespace trivium {

/// A collective bound to its memory. It may run many times. Three methods, the same on all members:
///   native:  the back-end's own collective. For gathers, if every operand is sharded evenly along its first
///            dimension; for sums of floating types sharded like that (or all_reduce), if not
///            `deterministic`. The back-end decides the order of additions, and may round bf16 after each:
///            within 1e-6 of the sum of magnitudes for f32; other buckets give other bits.
///   gather:  a small all_reduce: every rank gathers all contributions and combines them.
///   rounds:  everything else, as on the host.
/// The last two combine in rank order and give the bits of the host: bf16 is added in f32 and rounded once.
/// lse uses the device's exp and log1p.
class DeviceCollective {
public:
    enum class Way { native, gather, rounds };

    /// \pre scratch as for Collective, in memory of the device
    /// \throws InternalError as Collective
    DeviceCollective(DeviceComm& comm, CollectiveShape shape, Piece scratch, bool deterministic);

    /// Enqueues it on the stream. All members enqueue their collectives of one DeviceComm in the same order.
    void enqueue(void* stream);

    Way way() const { return way_; }

private:
    void plan_gather(Piece scratch);

    DeviceComm& comm_;
    CollectiveRounds rounds_;
    Round round_;
    Way way_ = Way::rounds;
    std::vector<DenseMove> moves_; ///< for native and gather
    Round gather_;                 ///< pack and combination of a gather
};

} // namespace trivium
