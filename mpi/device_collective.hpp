#pragma once
// The collectives of mpi/collective.hpp and the exchanges of mpi/box_exchange.hpp as work on a device's
// stream, with the same operands and scratch.
#include "mpi/box_exchange.hpp"
#include "mpi/device_comm.hpp"

namespace trivium {

/// A collective bound to its buffers. It may run many times. One of three methods, the same on all members:
///   native:  the back-end's own collective: for gathers, if every operand is sharded evenly along its first
///            dimension; unless `deterministic`, for sums of floating types that are sharded like that or
///            are an all_reduce. The back-end decides the order of additions, and may round bf16 after each:
///            f32 is within 1e-6 of the sum of magnitudes, and other buckets give other bits.
///   gather:  a small all_reduce: every rank gathers all contributions and combines them.
///   rounds:  all other collectives, as on the host.
/// `gather` and `rounds` combine in rank order and give the host's bits (bf16 is added in f32 and rounded
/// once), except that lse uses the device's exp and log1p.
class DeviceCollective {
public:
    enum class Way { native, gather, rounds };

    /// `comm` must outlive it. \pre scratch as for Collective, in memory of the device
    DeviceCollective(DeviceComm& comm, CollectiveShape shape, Piece scratch, bool deterministic);

    /// Enqueues the collective. All members enqueue their collectives of one DeviceComm in the same order.
    void enqueue(void* stream);

    Way way() const { return way_; }

private:
    void plan_gather(Piece scratch);

    DeviceComm& comm_;
    CollectiveRounds rounds_;
    Round round_; ///< of a gather: pack and combination
    Way way_ = Way::rounds;
    std::vector<DenseMove> moves_; ///< for native and gather
};

/// An exchange of boxes bound to its buffers. It may run many times.
class DeviceBoxExchange {
public:
    /// `comm` must outlive it. Operands and errors as for BoxExchange, in memory of the device.
    DeviceBoxExchange(DeviceComm& comm, const BoxExchangeShape& shape, const void* in, void* out,
                      Piece scratch);

    /// As DeviceCollective::enqueue(), with which it shares the order.
    void enqueue(void* stream);

private:
    DeviceComm& comm_;
    Round round_;
};

} // namespace trivium
