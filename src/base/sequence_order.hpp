#pragma once
// The zigzag order of the tokens of a sequence that ranks share (Llama 3, arXiv:2407.21783, section 3.3.2).
//
// In causal attention a later token has more work. Of 2 n chunks of a sequence, rank r of n therefore holds
// chunk r and chunk 2 n - 1 - r. In this order of tokens, ranks that share the sequence dimension of a tensor
// evenly have the same work.
#include "base/bf16.hpp"
#include "base/units.hpp"

namespace trivium {

/// By default the natural order. Ranks hold as many tokens as part_of() (ir/mesh.hpp) says; of an odd number
/// the first chunk has one more.
struct SequenceOrder {
    i64 ranks = 1, tokens = 0;

    /// Where in the sequence the token at `index` of this order is. \pre index < tokens, unless ranks is 1
    TRV_HOST_DEVICE i64 position(i64 index) const
    {
        if (ranks <= 1)
            return index;
        const Chunks rank = chunks_at(index);
        return index < rank.second ? rank.position + index - rank.begin
                                   : rank.second_position + index - rank.second;
    }
    /// The first index after `index` whose position is not the next one, or a larger one than any index.
    TRV_HOST_DEVICE i64 run_end(i64 index) const
    {
        if (ranks <= 1)
            return 0x7fffffffffffffff;
        const Chunks rank = chunks_at(index);
        const bool adjoin = rank.position + rank.second - rank.begin == rank.second_position;
        return index < rank.second && !adjoin ? rank.second : rank.end;
    }
    bool operator==(const SequenceOrder&) const = default;

private:
    /// The indices of a rank's chunks, [begin, second) and [second, end), and their first positions.
    struct Chunks {
        i64 begin, second, end, position, second_position;
    };
    TRV_HOST_DEVICE Chunks chunks_at(i64 index) const
    {
        const i64 least = tokens / ranks, larger = tokens % ranks, edge = larger * (least + 1);
        const i64 rank = index < edge ? index / (least + 1) : larger + (index - edge) / least;
        const i64 before = rank < larger ? rank : larger, others = rank - before; // ranks before this one
        const i64 size = least + (rank < larger ? 1 : 0), first = (size + 1) / 2;
        const i64 begin = before * (least + 1) + others * least;
        const i64 position = before * ((least + 2) / 2) + others * ((least + 1) / 2);
        // The second chunks of this rank and those before it are the end of the sequence.
        return {begin, begin + first, begin + size, position, tokens - (begin - position) - (size - first)};
    }
};

} // namespace trivium
