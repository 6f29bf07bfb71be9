#pragma once
// A collective as rounds, each of copies, an exchange, and what is made of what came. Whoever runs them (the
// host, mpi/collective.cpp; a device's stream, mpi/device_collective.cpp) takes the same rounds, hence gets
// the same bits.
#include "mpi/collective_layout.hpp"

namespace trivium {

/// Rows of bytes that are copied, from one place with a stride to another.
struct CopyBlock {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Bytes row = 0; ///< contiguous bytes
    i64 rows = 1;
    Bytes to_stride = 0, from_stride = 0; ///< from row to row
};

/// Rows of elements that are combined over the ranks: row r of this rank is at own + r * own_stride, that of
/// another in its slot from element at + r * row. The results are dense from `out`, which may be `own`.
struct CombineBlock {
    std::byte* out = nullptr;
    const std::byte* own = nullptr;
    i64 own_stride = 0; ///< elements, as all below
    i64 at = 0;
    i64 rows = 1, row = 0;
};

/// All that is combined at once: in the order of the ranks, as combine_parts() does.
struct Combination {
    DType type = DType::f32;
    Combine combine = Combine::sum;
    int ranks = 1, rank = 0;
    const std::byte* slots = nullptr; ///< what came, a slot for each rank, or for each but this one
    Bytes slot = 0;
    bool own_slot = false; ///< whether this rank has a slot too, which is not read
    std::vector<CombineBlock> blocks;

    const std::byte* slot_of(int peer) const
    {
        return slots + slot * (own_slot || peer < rank ? peer : peer - 1);
    }
};

struct Round {
    std::vector<CopyBlock> pack; ///< before the exchange
    std::vector<ConstPiece> sends;
    std::vector<Piece> receives; ///< by rank; this one's own are empty
    std::vector<CopyBlock> keep; ///< beside the exchange
    Combination combination;     ///< after it; perhaps without blocks
    std::vector<CopyBlock> spread;
};

/// Copies each whole operand from `in` to `out`: what a collective of one rank is.
std::vector<CopyBlock> copies_of_whole(const CollectiveShape& shape);

class CollectiveRounds {
public:
    /// \throws InternalError where the scratch is too small or not aligned to 64, and for a reduction of i32
    CollectiveRounds(CollectiveShape shape, int ranks, int rank, Piece scratch);

    /// Back to the first round.
    void rewind();
    /// False after the last one; else `round` is the next, made anew in the memory that it has.
    bool next(Round& round);

    const CollectiveShape& shape() const { return shape_; }

private:
    using Block = CollectiveLayout::Block;
    bool gathers_only() const { return shape_.kind == CollectiveKind::all_gather; }
    i64 end(int rank) const { return std::min(begin_ + window_, layout_.elements(rank)); }
    Bytes window_bytes(int rank) const { return std::max<i64>(end(rank) - begin_, 0) * element_; }
    std::byte* slot_of(std::byte* slots, int peer) const
    {
        return slots + slot_ * (peer < rank_ ? peer : peer - 1);
    }
    const std::byte* in(const Block& block, i64 index) const
    {
        return static_cast<const std::byte*>(block.operand->in) + index * element_;
    }
    std::byte* out(const Block& block, i64 index) const
    {
        return static_cast<std::byte*>(block.operand->out) + index * element_;
    }
    void scatter(Round& round) const;
    void gather(Round& round) const;

    CollectiveShape shape_;
    int ranks_, rank_;
    CollectiveLayout layout_;
    Bytes element_;                 ///< size of one
    i64 window_ = 0;                ///< elements of each stream that move in a round
    Bytes slot_ = 0;                ///< bytes of a window in the scratch
    std::byte *packed_, *received_; ///< slots, by peer
    i64 begin_ = 0;                 ///< of the next round's windows
    bool gathering_ = false;        ///< else it scatters
};

} // namespace trivium
