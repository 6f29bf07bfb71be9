#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "schedule/packing.hpp"

#include <algorithm>

using namespace trivium;

namespace {

/// Rectangles that fill `width` times 2^20 bytes exactly: the square is divided at random.
struct Puzzle {
    struct Piece {
        std::size_t begin, end;
        Bytes bytes;
    };
    std::vector<Piece> pieces;

    Puzzle(std::uint64_t seed, int depth) : random_(seed, "puzzle") { divide(0, 64, Bytes{1} << 20, depth); }

private:
    void divide(std::size_t begin, std::size_t end, Bytes bytes, int depth)
    {
        const std::uint64_t draw = random_.bits_at(counter_++);
        if (depth == 0)
            pieces.push_back({begin, end, bytes});
        else if (depth % 2 == 0 && end - begin > 1) {
            const std::size_t middle = begin + 1 + draw % (end - begin - 1);
            divide(begin, middle, bytes, depth - 1);
            divide(middle, end, bytes, depth - 1);
        } else {
            const Bytes part = bytes / 8 * static_cast<Bytes>(1 + draw % 7);
            divide(begin, end, part, depth - 1);
            divide(begin, end, bytes - part, depth - 1);
        }
    }

    RandomStream random_;
    std::uint64_t counter_ = 0;
};

} // namespace

TEST_CASE("a packing keeps what is in conflict disjoint and comes close to a perfect one")
{
    double first = 0, searched = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Puzzle puzzle(seed, 6);
        const std::size_t n = puzzle.pieces.size();
        std::vector<Bytes> bytes;
        Conflicts conflicts(n);
        for (std::size_t i = 0; i < n; ++i) {
            bytes.push_back(puzzle.pieces[i].bytes);
            for (std::size_t j = 0; j < i; ++j)
                if (puzzle.pieces[i].begin < puzzle.pieces[j].end &&
                    puzzle.pieces[j].begin < puzzle.pieces[i].end)
                    conflicts.add(i, j);
        }
        conflicts.complete();
        const Bytes perfect = Bytes{1} << 20;
        const Packing fast = pack(bytes, conflicts, Bytes{1} << 40), best = pack(bytes, conflicts, perfect);
        for (const Packing& packing : {fast, best}) {
            Bytes end = 0;
            for (std::size_t i = 0; i < n; ++i) {
                REQUIRE(packing.offsets[i] >= 0);
                end = std::max(end, packing.offsets[i] + bytes[i]);
                for (std::size_t j = 0; j < i; ++j)
                    if (conflicts.of(i, j))
                        REQUIRE((packing.offsets[i] + bytes[i] <= packing.offsets[j] ||
                                 packing.offsets[j] + bytes[j] <= packing.offsets[i]));
            }
            REQUIRE(packing.end == end);
            REQUIRE(packing.end >= perfect);
        }
        REQUIRE(best.end <= fast.end);
        REQUIRE(pack(bytes, conflicts, perfect).offsets == best.offsets); // all ranks find the same
        first += static_cast<double>(fast.end) / static_cast<double>(perfect) / 12;
        searched += static_cast<double>(best.end) / static_cast<double>(perfect) / 12;
    }
    INFO("greedy " << first << ", searched " << searched);
    CHECK(first < 1.5);
    CHECK(searched < 1.10);
    CHECK(searched < first);
}

TEST_CASE("of each pair that is in conflict both are")
{
    for (const std::size_t n : {1, 63, 64, 65, 200}) {
        const RandomStream random(n, "pairs");
        Conflicts conflicts(n);
        std::vector<bool> added(n * n, false);
        for (std::size_t k = 0; k < 4 * n; ++k) {
            const std::size_t a = random.bits_at(2 * k) % n, b = random.bits_at(2 * k + 1) % n;
            conflicts.add(a, b);
            added[a * n + b] = added[b * n + a] = true;
        }
        conflicts.complete();
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < n; ++b)
                REQUIRE(conflicts.of(a, b) == added[a * n + b]);
    }
}

TEST_CASE("nothing to pack, and sizes of nothing")
{
    CHECK(pack({}, Conflicts(0), 0).end == 0);
    Conflicts conflicts(2);
    conflicts.add(0, 1);
    conflicts.complete();
    CHECK(pack({0, 0}, conflicts, 0).end == 0);
    CHECK_THROWS_AS(pack({1}, conflicts, 0), InternalError);
}
