#pragma once
// The exchange of a mixture of experts (the op exchange_rows): rows travel between the groups of their tokens
// and the ranks of their experts, as many as counts say that are known at run time only. They go from and to
// their places, a message for each expert of a peer, so that nothing is packed.
#include "base/expert_rows.hpp"
#include "ir/type.hpp"
#include "mpi/collective_rounds.hpp"

namespace trivium {

/// `blocks` independent exchanges, each among `groups` groups and their ranks, of which each member of a
/// communicator has as many: member c those from c * groups / members.
///   forwards:  in [blocks, own groups, sent, row]     -> out [blocks, own groups, received, row]
///   backwards: in [blocks, own groups, received, row] -> out [blocks, own groups, sent, row]
struct RowExchangeShape {
    i64 blocks = 1, groups = 1, experts = 1;
    i64 sent = 0;     ///< rows of a group
    i64 received = 0; ///< rows for which the rank of a group's experts has places
    Bytes row = 0;
    bool backwards = false;
    bool drops = true; ///< rows beyond `received`; otherwise they are an error
    std::string place; ///< of errors

    i64 counts() const { return blocks * groups * experts; }
};

/// What one member does. Only sizes and addresses: the caller moves.
struct RowMoves {
    /// Exchanges, which may run at once; by member in each. As many on all members.
    std::vector<std::vector<ConstPiece>> sends;
    std::vector<std::vector<Piece>> receives;
    std::vector<CopyBlock> keep; ///< from `in` to `out`
    std::vector<Piece> zero;     ///< rows of `out` that nothing fills
};

/// `counts`: [blocks, groups, experts], the same on all members. \throws UserError, on all members, if more
/// rows arrive than have places and the shape does not drop them, or if the counts do not fit the groups
RowMoves row_moves(const RowExchangeShape& shape, std::span<const i32> counts, int members, int member,
                   const void* in, void* out);

/// An exchange of rows bound to its buffers. It may run many times.
class RowExchange {
public:
    /// `in` and `out` must not overlap; `counts` is read by start(). `comm` and the buffers must outlive this
    /// object.
    RowExchange(Comm& comm, RowExchangeShape shape, const void* in, const i32* counts, void* out)
        : comm_(&comm), shape_(std::move(shape)), in_(in), counts_(counts), out_(out)
    {
    }

    // As for Collective, together with which it may run concurrently.
    /// \throws UserError as row_moves()
    void start();
    bool progress();
    std::vector<int> waits_for() const;
    void finish();

private:
    Comm* comm_;
    RowExchangeShape shape_;
    const void* in_;
    const i32* counts_;
    void* out_;
    std::vector<std::unique_ptr<Request>> pending_; ///< empty: done
};

} // namespace trivium
