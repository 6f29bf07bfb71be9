// What an attention sees, against every pair of a query and a key.
#include "ir/ops/seen_keys.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"

using namespace trivium;

namespace {

/// An attention over a sequence of `tokens`, of `ranks` ranks in zigzag order; 0: no limit.
struct Attention {
    i64 tokens, ranks, window, chunk;
    bool documents;

    Graph graph() const
    {
        Graph graph;
        Builder b(graph);
        const ValueId q = b.value("q", {DType::f32, {1, tokens, 1, 1, 1}}, Role::input),
                      k = b.value("k", {DType::f32, {1, tokens, 1, 1}}, Role::input);
        std::vector<ValueId> operands{q, k, k};
        if (documents)
            operands.push_back(b.value("starts", {DType::i32, {1, tokens}}, Role::input));
        Attributes attrs;
        if (ranks > 1)
            attrs.lists.set(Attr::order, {ranks, tokens});
        if (window > 0)
            attrs.lists.set(Attr::window, {window});
        if (chunk > 0)
            attrs.lists.set(Attr::chunk, {chunk});
        b.op(OpKind::attention, operands, attrs);
        return graph;
    }
    /// Whether the query at a position sees the key at another, in a document that begins at `start`.
    bool sees(i64 query, i64 key, i64 start) const
    {
        const bool near = window == 0 || query - key < window,
                   same = chunk == 0 || (query - start) / chunk == (key - start) / chunk;
        return start <= key && key <= query && near && same;
    }
};

} // namespace

TEST_CASE("the pairs and the keys that an attention sees are those of every pair")
{
    for (const Attention& a :
         {Attention{13, 1, 0, 0, false}, Attention{16, 2, 0, 0, false}, Attention{17, 3, 0, 0, true},
          Attention{19, 3, 4, 0, false}, Attention{20, 4, 0, 5, false}, Attention{21, 2, 3, 7, false},
          Attention{21, 2, 3, 7, true}, Attention{24, 4, 2, 3, true}, Attention{16, 8, 1, 0, false}}) {
        INFO(str(a.tokens, " tokens, ", a.ranks, " ranks, window ", a.window, ", chunk ", a.chunk));
        const Graph graph = a.graph();
        const Op& op = graph.ops[0];
        const SequenceOrder order = op.attrs->order_of_tokens();
        for (i64 rank = 0; rank < a.ranks; ++rank)
            for (i64 other = 0; other < a.ranks; ++other) {
                const IndexRange own = part_of(a.tokens, a.ranks, rank),
                                 keys = part_of(a.tokens, a.ranks, other);
                Flops pairs = 0;
                i64 first = keys.begin + keys.size, end = keys.begin;
                for (i64 i = own.begin; i < own.begin + own.size; ++i)
                    for (i64 j = keys.begin; j < keys.begin + keys.size; ++j) {
                        const i64 query = order.position(i), key = order.position(j);
                        pairs += a.sees(query, key, 0) ? 1 : 0;
                        bool seen = false; // with some document
                        for (i64 start = 0; start <= (a.documents ? query : 0); ++start)
                            seen = seen || a.sees(query, key, start);
                        if (seen) {
                            first = std::min(first, j);
                            end = std::max(end, j + 1);
                        }
                    }
                CHECK(seen_pairs(op, own, keys) == pairs);
                const IndexRange seen = seen_keys(graph, op, own, keys);
                CHECK(seen.size == std::max<i64>(end - first, 0));
                if (seen.size > 0)
                    CHECK(seen.begin == first);
            }
    }
}

TEST_CASE("in zigzag order each step has the same pairs on every rank")
{
    for (const i64 ranks : {2, 3, 4, 8}) {
        const Attention a{64 * ranks, ranks, 0, 0, false};
        const Graph graph = a.graph();
        const auto pairs = [&](i64 rank, i64 step) {
            return seen_pairs(graph.ops[0], part_of(a.tokens, ranks, rank),
                              part_of(a.tokens, ranks, (rank - step + ranks) % ranks));
        };
        for (i64 step = 1; step < ranks; ++step)
            for (i64 rank = 0; rank < ranks; ++rank)
                CHECK(pairs(rank, step) == 2 * 32 * 32); // queries and keys of a chunk
        for (i64 rank = 0; rank < ranks; ++rank)         // the same and its diagonal
            CHECK(pairs(rank, 0) == 2 * 32 * 32 + 64 / 2);
    }
}
