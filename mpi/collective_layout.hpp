#pragma once
// Which bytes of a bucket belong to which rank. The packed shard of a rank consists of its shards [outer,
// part, inner] of all operands, dense and concatenated. A round of a collective moves one window [begin, end)
// of each packed shard.
#include "mpi/collective.hpp"

#include <algorithm>
#include <optional>

namespace trivium {

class CollectiveLayout {
public:
    /// For an all_reduce, any elements may form the shards: operands are seen as [1, elements, 1]. Drops
    /// empty operands.
    CollectiveLayout(const CollectiveShape& shape, int ranks);

    /// Consecutive rows of elements of a packed shard.
    struct Block {
        const Operand* operand;
        i64 whole;     ///< index of the first element in [outer, extent, inner]
        i64 stride;    ///< between rows in [outer, extent, inner], in elements
        i64 part;      ///< index of the first element in [outer, part, inner], where the rows are consecutive
        i64 at;        ///< index of the first element in the window
        i64 rows, row; ///< number of rows, elements per row
    };

    /// Number of elements of a rank's packed shard; rank 0 has the most.
    i64 elements(int rank) const;
    /// Whether there is one operand, with contiguous shards: windows are contiguous in it.
    bool dense() const
    {
        return operands_.empty() || (operands_.size() == 1 && operands_.front().outer == 1);
    }
    int ranks() const { return ranks_; }

    /// Visits the blocks of the window [begin, end) of a rank's packed shard, in order.
    template <class Visit>
    void for_each_block(int rank, i64 begin, i64 end, Visit&& visit) const;
    /// The window as one row, if it is contiguous in the shard (`in_part`) or in the whole tensor.
    std::optional<Block> one_row(int rank, i64 begin, i64 end, bool in_part) const;

private:
    int ranks_;
    std::vector<Operand> operands_;
};

template <class Visit>
void CollectiveLayout::for_each_block(int rank, i64 begin, i64 end, Visit&& visit) const
{
    i64 first = 0; // offset of the operand in the packed shard
    for (const Operand& operand : operands_) {
        if (first >= end)
            return;
        const IndexRange part = part_of(operand.extent, ranks_, rank);
        const i64 row = part.size * operand.inner, elements = operand.outer * row,
                  stride = operand.extent * operand.inner;
        const i64 last = std::min(end - first, elements);
        for (i64 at = std::max<i64>(begin - first, 0);
             at < last;) { // the rest of a row, whole rows, the start of a row
            const i64 o = at / row, in_row = at % row, whole_rows = in_row == 0 ? (last - at) / row : 0;
            const i64 rows = std::max<i64>(whole_rows, 1),
                      count = whole_rows > 0 ? row : std::min(row - in_row, last - at);
            visit(Block{&operand, o * stride + part.begin * operand.inner + in_row, stride, at,
                        first + at - begin, rows, count});
            at += rows * count;
        }
        first += elements;
    }
}

} // namespace trivium
