#pragma once
// Redistributes a tensor over a group in one exchange: an all-gather, an all-to-all, a permutation, a halo
// exchange, or any other.
//
// Each member owns a box of the tensor and needs a box (ir/exchange.hpp). It sends each peer the intersection
// of its owned box with the box that the peer needs. Intersections that are contiguous in the owned or the
// needed box are sent or received in place; others are packed into scratch.
#include "ir/exchange.hpp"
#include "mpi/collective_rounds.hpp"

namespace trivium {

/// What the member `rank` of `ranks` does, without a combination; `keep` copies the intersection of its own
/// boxes. Operands and errors as for BoxExchange.
Round box_round(const BoxExchangeShape& shape, int ranks, int rank, const void* in, void* out, Piece scratch);

/// An exchange of boxes bound to its buffers. It may run many times.
class BoxExchange {
public:
    /// `in` contains the box that this rank owns, `out` gets the box that it needs, both row-major and dense;
    /// they must not overlap. All members pass the same shape. `comm` and the buffers must outlive this
    /// object. \pre scratch has box_exchange_scratch() bytes, aligned to 64 \throws InternalError if not; on
    /// all members if the boxes do not fit the group or each other, owned boxes overlap, or no rank owns an
    /// element that some rank needs
    BoxExchange(Comm& comm, const BoxExchangeShape& shape, const void* in, void* out, Piece scratch);

    // As for Collective, together with which it may run concurrently.
    void start();
    bool progress();
    std::vector<int> waits_for() const;
    void finish();

private:
    void unpack();

    Comm* comm_;
    Round round_;
    std::unique_ptr<Request> pending_; ///< null: done
};

} // namespace trivium
