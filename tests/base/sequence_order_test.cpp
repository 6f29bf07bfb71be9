// The zigzag order of a sequence's tokens, against its chunks written out.
#include "base/sequence_order.hpp"

#include "catch.hpp"

#include <numeric>
#include <vector>

using namespace trivium;

namespace {

/// The positions of each rank's tokens: chunk r from the front, then its chunk from the end.
std::vector<std::vector<i64>> by_chunks(i64 ranks, i64 tokens)
{
    std::vector<std::vector<i64>> all(static_cast<std::size_t>(ranks));
    i64 front = 0, back = tokens;
    for (i64 r = 0; r < ranks; ++r) {
        std::vector<i64>& own = all[static_cast<std::size_t>(r)];
        const i64 size = tokens / ranks + (r < tokens % ranks ? 1 : 0), first = size - size / 2;
        for (i64 i = 0; i < first; ++i)
            own.push_back(front++);
        back -= size / 2;
        for (i64 i = 0; i < size / 2; ++i)
            own.push_back(back + i);
    }
    return all;
}

} // namespace

TEST_CASE("a rank has one chunk from the front of a sequence and one from its end")
{
    for (i64 ranks = 1; ranks <= 9; ++ranks)
        for (i64 tokens = ranks; tokens < 6 * ranks + 5; ++tokens) {
            INFO(ranks << " ranks, " << tokens << " tokens");
            const SequenceOrder order{ranks, tokens};
            std::vector<i64> positions, want;
            for (i64 i = 0; i < tokens; ++i)
                positions.push_back(order.position(i));
            for (const std::vector<i64>& own : by_chunks(ranks, tokens))
                want.insert(want.end(), own.begin(), own.end());
            REQUIRE(positions == want);
            for (i64 i = 0; i < tokens; ++i) { // runs are as long as positions are consecutive
                i64 end = i + 1;
                while (end < tokens && positions[static_cast<std::size_t>(end)] ==
                                           positions[static_cast<std::size_t>(end - 1)] + 1)
                    ++end;
                // A run may end where another rank begins.
                REQUIRE(order.run_end(i) > i);
                REQUIRE((ranks == 1 || order.run_end(i) <= end));
            }
        }
}

TEST_CASE("ranks in zigzag order have the same work in causal attention")
{
    for (const i64 ranks : {2, 3, 4, 8, 16}) {
        const i64 tokens = 4096;
        const SequenceOrder order{ranks, tokens};
        std::vector<double> work(static_cast<std::size_t>(ranks));
        for (i64 i = 0, rank = 0, left = 0; i < tokens; ++i, --left) {
            if (left == 0)
                left = tokens / ranks + (rank < tokens % ranks ? 1 : 0), ++rank;
            work[static_cast<std::size_t>(rank - 1)] += static_cast<double>(order.position(i) + 1);
        }
        const double mean = std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(ranks);
        for (const double own : work)
            CHECK(own == Approx(mean).epsilon(0.02));
    }
}
