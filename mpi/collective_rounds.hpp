#pragma once
// A collective as rounds: each packs, exchanges and combines. The host (mpi/collective.cpp) and a device's
// stream (mpi/device_collective.cpp) run the same rounds and so get the same bits.
#include "mpi/collective_layout.hpp"

namespace trivium {

/// A strided copy of rows of bytes.
struct CopyBlock {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Bytes row = 0; ///< contiguous bytes per row
    i64 rows = 1;
    Bytes to_stride = 0, from_stride = 0; ///< between rows, in bytes
};

/// Rows of elements that are combined over the ranks. Row r of this rank begins at own + r * own_stride, row
/// r of another rank at element at + r * row of that rank's slot. The results are dense in `out`, which may
/// be `own`.
struct CombineBlock {
    std::byte* out = nullptr;
    const std::byte* own = nullptr;
    i64 own_stride = 0; ///< in elements, like the members below
    i64 at = 0;
    i64 rows = 1, row = 0;
};

/// The reductions of one round, in rank order as in combine_parts().
struct Combination {
    DType type = DType::f32;
    Combine combine = Combine::sum;
    int ranks = 1, rank = 0;
    const std::byte* slots = nullptr; ///< received data: one slot per rank, with or without this one
    Bytes slot = 0;
    bool own_slot = false; ///< this rank has a slot too, which is not read
    std::vector<CombineBlock> blocks;

    const std::byte* slot_of(int peer) const
    {
        return slots + slot * (own_slot || peer < rank ? peer : peer - 1);
    }
};

struct Round {
    std::vector<CopyBlock> pack;   ///< before the exchange
    std::vector<ConstPiece> sends; ///< by rank; empty for this rank
    std::vector<Piece> receives;   ///< by rank; empty for this rank
    std::vector<CopyBlock> keep;   ///< copies concurrent with the exchange
    Combination combination;       ///< after the exchange; may be empty
    std::vector<CopyBlock> spread; ///< copies after the combination
};

/// Copies each whole operand from `in` to `out`: the collective of a single rank.
std::vector<CopyBlock> copies_of_whole(const CollectiveShape& shape);

class CollectiveRounds {
public:
    /// \throws InternalError as Collective
    CollectiveRounds(CollectiveShape shape, int ranks, int rank, Piece scratch);

    /// Returns to the first round.
    void rewind();
    /// False after the last round; otherwise `round` is the next one, in reused memory.
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

    // In phases, a rank holds one block per rank, by distance modulo the number of ranks. While it scatters,
    // block d is on its way from some rank r to rank r + d, and at the end is the contribution of the rank d
    // before this one. While it gathers, block d is the shard of the rank d before this one.
    int rank_at(i64 distance) const
    {
        return static_cast<int>(((rank_ + distance) % ranks_ + ranks_) % ranks_);
    }
    std::byte* held(i64 block) const { return held_ + slot_ * block; }
    i64 weight(int phase) const; ///< radix to the power `phase`
    void scatter_phase(Round& round) const;
    void gather_phase(Round& round) const;
    /// Copies the window of `peer`'s packed shard out of the whole tensors; pack_own: this rank's, to gather.
    void pack_for(int peer, std::byte* to, std::vector<CopyBlock>& copies) const;
    void pack_own(std::byte* to, std::vector<CopyBlock>& copies) const;
    /// The reverse of pack_for, for a window that was gathered.
    void spread_of(int peer, const std::byte* from, std::vector<CopyBlock>& copies) const;
    void keep_own(Round& round) const;
    /// `slots`: the peers' contributions, by rank.
    void combine_received(Round& round, const std::byte* slots) const;

    CollectiveShape shape_;
    int ranks_, rank_;
    CollectiveLayout layout_;
    Bytes element_;                 ///< size of an element, in bytes
    i64 window_ = 0;                ///< elements of each packed shard that move in a round
    Bytes slot_ = 0;                ///< bytes of a window in the scratch
    std::byte *packed_, *received_; ///< slots, by peer
    i64 begin_ = 0;                 ///< start of the next round's windows
    bool gathering_ = false;        ///< otherwise scattering
    int radix_, phases_ = 1;        ///< of the exchange
    int phase_ = 0;                 ///< of the current windows
    std::byte* held_ = nullptr;     ///< slots, by distance; only with several phases
};

} // namespace trivium
