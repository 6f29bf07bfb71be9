#include "io/tokens/bpe_merges.hpp"

#include <queue>

namespace trivium {

namespace {

using i32 = std::int32_t;

u64 key_of(i32 left, i32 right)
{
    return u64{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

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
    table_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank)
        table_[key_of(merges[rank].left, merges[rank].right)] = {static_cast<std::uint32_t>(rank),
                                                                 merges[rank].result};
}

const BpeMerges::Ranked* BpeMerges::find(i32 left, i32 right) const
{
    const auto found = table_.find(key_of(left, right));
    return found == table_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(std::vector<i32>& ids) const
{
    std::vector<Symbol> symbols(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
        symbols[i] = {ids[i], i == 0 ? none : i - 1, i + 1 == ids.size() ? none : i + 1};
    std::vector<Candidate> candidates;
    const auto candidate = [&](std::size_t at, const auto& take) {
        if (at == none || symbols[at].next == none)
            return;
        if (const Ranked* const found = find(symbols[at].id, symbols[symbols[at].next].id))
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
        if (const Ranked* const found = find(left.id, right.id); !found || found->result != best.result)
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
    ids.clear();
    for (std::size_t at = symbols.empty() ? none : 0; at != none; at = symbols[at].next)
        ids.push_back(symbols[at].id);
}

} // namespace trivium
