#pragma once
// Where the rows of a mixture of experts are: those of a group of tokens before the exchange between expert
// ranks, and those of the experts of a rank after it.
#include "base/units.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace trivium {

/// P groups of tokens, whose ranks share x experts: rank p has the experts [p x / P, (p + 1) x / P). `counts`
/// [P,x]: the rows of each group for each expert, of which the ranks then have the same copy, so that each
/// knows what the others send, take and drop.
class ExpertRows {
public:
    /// `bound`: rows that a rank has places for after the exchange. `counts` must outlive it.
    ExpertRows(std::span<const i32> counts, i64 groups, i64 bound)
        : counts_(counts), groups_(groups), experts_(static_cast<i64>(counts.size()) / groups), bound_(bound)
    {
    }

    i64 groups() const { return groups_; }
    i64 experts() const { return experts_; }                   ///< x
    i64 experts_of_rank() const { return experts_ / groups_; } ///< x / P
    i64 count(i64 group, i64 expert) const
    {
        return counts_[static_cast<std::size_t>(group * experts_ + expert)];
    }

    /// Rows [begin, begin + size) of a buffer.
    struct Range {
        i64 begin = 0, size = 0;
    };
    /// Of group `group` before the exchange: sorted by expert.
    Range sent(i64 group, i64 expert) const
    {
        i64 begin = 0;
        for (i64 e = 0; e < expert; ++e)
            begin += count(group, e);
        return {begin, count(group, expert)};
    }
    /// Of the expert's rank after the exchange: sorted by expert, then by group. Rows beyond the bound are
    /// missing: a range has only its first rows, or none.
    Range received(i64 group, i64 expert) const
    {
        const i64 first = expert / experts_of_rank() * experts_of_rank();
        i64 begin = 0;
        for (i64 e = first; e <= expert; ++e)
            for (i64 g = 0; g < (e < expert ? groups_ : group); ++g)
                begin += count(g, e);
        return {std::min(begin, bound_), std::clamp<i64>(bound_ - begin, 0, count(group, expert))};
    }
    /// All rows of an expert after the exchange.
    Range of_expert(i64 expert) const
    {
        const Range first = received(0, expert), last = received(groups_ - 1, expert);
        return {first.begin, last.begin + last.size - first.begin};
    }
    /// Rows that reach the rank, with those for which it has no places.
    i64 arriving(i64 rank) const
    {
        i64 rows = 0;
        for (i64 e = rank * experts_of_rank(); e < (rank + 1) * experts_of_rank(); ++e)
            for (i64 g = 0; g < groups_; ++g)
                rows += count(g, e);
        return rows;
    }

    /// The rows of a group for an expert, of which the first `kept` reach it.
    struct Part {
        i64 group = 0, expert = 0;
        i64 sent = 0, received = 0; ///< the first row, before and after the exchange
        i64 size = 0, kept = 0;
    };
    /// Calls visit(part) for each expert and group, in the order in which they are after the exchange.
    template <class Visit>
    void each(Visit&& visit) const
    {
        std::vector<i64> sent(static_cast<std::size_t>(groups_), 0);
        i64 received = 0;
        for (i64 e = 0; e < experts_; ++e) {
            received = e % experts_of_rank() == 0 ? 0 : received;
            for (i64 g = 0; g < groups_; ++g) {
                const i64 size = count(g, e);
                i64& from = sent[static_cast<std::size_t>(g)];
                visit(Part{g, e, from, std::min(received, bound_), size,
                           std::clamp<i64>(bound_ - received, 0, size)});
                from += size;
                received += size;
            }
        }
    }

private:
    std::span<const i32> counts_;
    i64 groups_, experts_, bound_;
};

/// Numbers of the attribute `routing` of ops that score experts.
struct Routing {
    bool sigmoid = false; ///< scores; otherwise softmax
    bool normalised = false;
    i64 groups = 1, top_groups = 1;
    bool top2 = false; ///< a group's score is the sum of its two largest ones

    /// \pre as many numbers as members
    static Routing of(std::span<const i64> numbers)
    {
        return {numbers[0] != 0, numbers[1] != 0, numbers[2], numbers[3], numbers[4] != 0};
    }
};

/// Tokens that `dispatch` counts together, of one sequence.
inline constexpr i64 dispatch_block = 32;

/// Bytes of scratch of `dispatch` for so many sequences (or parts of them in a group) of `tokens` tokens: the
/// rows of each expert before each block and each sequence, and those of each sequence's group.
constexpr Bytes dispatch_scratch(i64 sequences, i64 tokens, i64 experts)
{
    return 4 * sequences * (experts * ((tokens + dispatch_block - 1) / dispatch_block + 1) + 1);
}

/// Rows that a grouped product on a host pads with zeros at the end of an expert.
inline constexpr i64 grouped_pad = 32;

} // namespace trivium
