#include "ir/ops/seen_keys.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// The keys before position `m` that queries before position `n` see.
class Limits {
public:
    explicit Limits(const Op& op) : window_(limit(op, Attr::window)), chunk_(limit(op, Attr::chunk)) {}

    /// Pairs of a query before position n and a key before position m.
    Flops pairs(i64 n, i64 m) const
    {
        m = std::min(m, n);
        // Of the keys of the last chunk, those that a query behind them sees: `left`, then one less each
        // time.
        const i64 left = chunk_ < no_limit ? m % chunk_ : m;
        const i64 later =
            std::max<i64>(0, std::min({n - m, window_ - 1, chunk_ < no_limit ? chunk_ - left : no_limit}));
        const i64 all = std::clamp<i64>(window_ - left, 0, later);
        const auto count = static_cast<Flops>(later - all), most = static_cast<Flops>(window_ - 1 - all);
        const Flops behind = left == 0 ? 0
                                       : static_cast<Flops>(all) * static_cast<Flops>(left) + count * most -
                                             count * (count - 1) / 2;
        return own(m) + behind;
    }
    /// The first key that a query at this position may see. With `documents`, chunks begin anywhere.
    i64 first(i64 position, bool documents) const
    {
        i64 first = 0;
        if (chunk_ < no_limit)
            first = documents ? position - chunk_ + 1 : position - position % chunk_;
        return std::max<i64>({first, position - window_ + 1, 0});
    }

private:
    static constexpr i64 no_limit = i64{1} << 60;

    static i64 limit(const Op& op, Attr attr)
    {
        const auto* list = op.attrs->lists.find(attr);
        return list ? std::max<i64>(list->front(), 1) : no_limit;
    }
    /// Pairs of queries and keys before position n.
    Flops own(i64 n) const
    {
        const i64 chunk = std::max<i64>(std::min(chunk_, n), 1),
                  window = std::min(window_, std::max<i64>(n, 1));
        const auto of_chunk = [&](i64 queries) {
            const auto all = static_cast<Flops>(queries),
                       wide = static_cast<Flops>(std::min(queries, window));
            return wide * (wide + 1) / 2 + (all - wide) * wide;
        };
        return static_cast<Flops>(n / chunk) * of_chunk(chunk) + of_chunk(n % chunk);
    }

    i64 window_, chunk_;
};

/// Calls use(index, position, size) for each run of consecutive positions.
template <class Use>
void each_run(const SequenceOrder& order, const IndexRange& range, const Use& use)
{
    const i64 end = range.begin + range.size;
    for (i64 i = range.begin; i < end;) {
        const i64 next = std::min(order.run_end(i), end);
        use(i, order.position(i), next - i);
        i = next;
    }
}

} // namespace

Flops seen_pairs(const Op& op, const IndexRange& queries, const IndexRange& keys)
{
    const Limits limits(op);
    const SequenceOrder order = op.attrs->order_of_tokens();
    Flops pairs = 0;
    each_run(order, queries, [&](i64, i64 q, i64 n) {
        each_run(order, keys, [&](i64, i64 k, i64 m) {
            pairs += limits.pairs(q + n, k + m) - limits.pairs(q, k + m) - limits.pairs(q + n, k) +
                     limits.pairs(q, k);
        });
    });
    return pairs;
}

IndexRange seen_keys(const Graph& graph, const Op& op, const IndexRange& queries, const IndexRange& keys)
{
    const Limits limits(op);
    const SequenceOrder order = op.attrs->order_of_tokens();
    const bool documents = optional_operand(graph, op, 0) >= 0;
    i64 first = keys.begin + keys.size, end = keys.begin;
    each_run(order, queries, [&](i64, i64 q, i64 n) {
        const i64 from = limits.first(q, documents);
        each_run(order, keys, [&](i64 index, i64 k, i64 m) {
            const i64 begin = std::max(from, k), behind = std::min(q + n, k + m);
            if (begin < behind) {
                first = std::min(first, index + begin - k);
                end = std::max(end, index + behind - k);
            }
        });
    });
    return {first, std::max<i64>(end - first, 0)};
}

} // namespace trivium
