#pragma once
// Which bytes of a bucket belong to which rank. What a rank has of all operands, one after the other, is its stream:
// the parts [outer, part, inner] of each, dense. A collective moves the streams window by window.
#include "mpi/collective.hpp"

#include <algorithm>
#include <optional>

namespace trivium {

class CollectiveLayout {
public:
    /// An all_reduce is free to choose its parts: it sees operands as [1, elements, 1]. Empty operands go.
    CollectiveLayout(const CollectiveShape& shape, int ranks);

    /// A contiguous piece of a stream.
    struct Run {
        const Operand* operand;
        i64 whole; ///< index of its first element in [outer, extent, inner]
        i64 part;  ///< and in [outer, part, inner]
        i64 at;    ///< and in the window
        i64 count;
    };

    /// Elements of a rank's stream; rank 0 has the longest.
    i64 elements(int rank) const;
    /// No operand is scattered, and there is but one: windows are contiguous in it.
    bool dense() const { return operands_.empty() || (operands_.size() == 1 && operands_.front().outer == 1); }
    int ranks() const { return ranks_; }

    /// The runs of the window [begin, end) of a rank's stream, in order.
    template <class Visit>
    void for_each_run(int rank, i64 begin, i64 end, Visit&& visit) const;
    /// The window's first run, if the window is contiguous in the whole tensor, or in the part.
    std::optional<Run> one_run(int rank, i64 begin, i64 end, bool in_part) const;

private:
    int ranks_;
    std::vector<Operand> operands_;
};

template <class Visit>
void CollectiveLayout::for_each_run(int rank, i64 begin, i64 end, Visit&& visit) const
{
    i64 first = 0; // of the operand, in the stream
    for (const Operand& operand : operands_) {
        if (first >= end)
            return;
        const Stretch part = part_of(operand.extent, ranks_, rank);
        const i64 row = part.size * operand.inner, elements = operand.outer * row;
        const i64 last = std::min(end - first, elements);
        for (i64 at = std::max<i64>(begin - first, 0); at < last;) {
            const i64 o = at / row, in_row = at % row, count = std::min(row - in_row, last - at);
            visit(Run{&operand, (o * operand.extent + part.begin) * operand.inner + in_row, at, first + at - begin, count});
            at += count;
        }
        first += elements;
    }
}

} // namespace trivium
