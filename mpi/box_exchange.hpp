#pragma once
// Moves a tensor from one distribution over a group to another, in one exchange: an all-gather, an
// all-to-all, a permutation, a halo, or any other.
//
// Each member owns a box of the tensor and needs a box (ir/exchange.hpp). It sends each peer the part of its
// own box that the peer needs. Parts that are contiguous in a box travel from and to it; others are packed.
#include "ir/exchange.hpp"
#include "mpi/collective_rounds.hpp"

namespace trivium {

/// The exchange of a rank as copies of blocks and pieces for its peers; nothing is combined. `keep` copies
/// what the rank owns itself. \pre as for BoxExchange
Round box_exchange_round(const BoxExchangeShape& shape, int rank, const void* in, void* out, Piece scratch);

/// An exchange of boxes bound to its memory. It may run many times.
class BoxExchange {
public:
    /// `in` is the box that this rank owns, `out` the one that it needs, both row-major and dense; they must
    /// not overlap. All members pass the same shape. \pre scratch has box_exchange_scratch() bytes, aligned
    /// to 64 \throws InternalError if not, and on all members alike if boxes do not fit the group or each
    /// other, owned ones overlap, or nobody owns a cell that some rank needs
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
