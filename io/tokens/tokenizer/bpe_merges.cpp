#include "io/tokens/tokenizer/bpe_merges.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace trivium {

namespace {

constexpr std::size_t longest_short = 48; ///< symbols: looking at all of them is faster than a queue
constexpr std::uint32_t no_rank = ~std::uint32_t{0};

/// A candidate pair: the symbol at `at` and the next one. It is stale if either has been merged since.
struct Candidate {
    std::uint32_t rank;
    i32 result;
    std::size_t at;
    bool operator<(const Candidate& other) const
    {
        return rank != other.rank ? rank > other.rank : at > other.at;
    } // the best pair is the queue's top
};

constexpr std::size_t none = ~std::size_t{0};

struct Symbol {
    i32 id; ///< -1: merged into the previous symbol
    std::size_t previous, next;
};

} // namespace

BpeMerges::BpeMerges(const std::vector<Merge>& merges)
{
    const std::size_t places = std::bit_ceil(2 * merges.size() + 2);
    table_.resize(places);
    shift_ = 64 - std::countr_zero(places);
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        const Merge& merge = merges[rank];
        table_[place_of(merge.left, merge.right)] = {merge.left, merge.right,
                                                     static_cast<std::uint32_t>(rank), merge.result};
    }
}

std::size_t BpeMerges::place_of(i32 left, i32 right) const
{
    const u64 key = u64{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    std::size_t at = (key * 0x9e3779b97f4a7c15u ^ (key >> 29) * 0xbf58476d1ce4e5b9u) >> shift_;
    while (table_[at].left >= 0 && (table_[at].left != left || table_[at].right != right))
        at = (at + 1) & (table_.size() - 1);
    return at;
}

const BpeMerges::Entry* BpeMerges::find(i32 left, i32 right) const
{
    const Entry& entry = table_[place_of(left, right)];
    return entry.left < 0 ? nullptr : &entry;
}

std::size_t BpeMerges::apply(i32* ids, std::size_t count) const
{
    return count < 2                ? count
           : count <= longest_short ? apply_to_short(ids, count)
                                    : apply_to_long(ids, count);
}

std::size_t BpeMerges::apply_to_short(i32* ids, std::size_t count) const
{
    std::array<const Entry*, longest_short> pairs; // the merge of each symbol and the next one
    std::array<std::uint32_t, longest_short> ranks;
    const auto look_up = [&](std::size_t at) {
        pairs[at] = find(ids[at], ids[at + 1]);
        ranks[at] = pairs[at] ? pairs[at]->rank : no_rank;
    };
    for (std::size_t at = 0; at + 1 < count; ++at)
        look_up(at);
    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t at = 1; at + 1 < count; ++at)
            best = ranks[at] < ranks[best] ? at : best;
        if (ranks[best] == no_rank)
            break;
        ids[best] = pairs[best]->result;
        --count;
        for (std::size_t at = best + 1; at < count; ++at)
            ids[at] = ids[at + 1];
        for (std::size_t at = best + 1; at + 1 < count; ++at) {
            pairs[at] = pairs[at + 1];
            ranks[at] = ranks[at + 1];
        }
        if (best + 1 < count)
            look_up(best);
        if (best > 0)
            look_up(best - 1);
    }
    return count;
}

std::size_t BpeMerges::apply_to_long(i32* ids, std::size_t count) const
{
    std::vector<Symbol> symbols(count);
    for (std::size_t i = 0; i < count; ++i)
        symbols[i] = {ids[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1};
    std::vector<Candidate> candidates;
    const auto candidate = [&](std::size_t at, const auto& take) {
        if (at == none || symbols[at].next == none)
            return;
        if (const Entry* const found = find(symbols[at].id, symbols[symbols[at].next].id))
            take(Candidate{found->rank, found->result, at});
    };
    for (std::size_t at = 0; at < symbols.size(); ++at)
        candidate(at, [&](const Candidate& c) { candidates.push_back(c); });
    std::priority_queue<Candidate> queue({}, std::move(candidates));

    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Symbol& left = symbols[best.at];
        if (left.id < 0 || left.next == none)
            continue;
        Symbol& right = symbols[left.next];
        if (const Entry* const found = find(left.id, right.id); !found || found->result != best.result)
            continue; // stale
        left.id = best.result;
        right.id = -1;
        left.next = right.next;
        if (left.next != none)
            symbols[left.next].previous = best.at;
        const auto push = [&](const Candidate& c) { queue.push(c); };
        candidate(left.previous, push);
        candidate(best.at, push);
    }
    std::size_t kept = 0;
    for (std::size_t at = 0; at != none; at = symbols[at].next)
        ids[kept++] = symbols[at].id;
    return kept;
}

} // namespace trivium
