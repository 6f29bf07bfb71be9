// The rounds of a collective on many ranks, all in this process: forwarding changes no bit, and a rank sends
// few messages.
#include "catch.hpp"
#include "mpi/collective_rounds.hpp"
#include "mpi/combine.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace trivium;

namespace {

struct Result {
    std::vector<std::vector<float>> out; ///< by rank
    int messages = 0;                    ///< the most that a rank sends
};

/// Operands [2, extent, 3] and [1, 5, 1] on `ranks` ranks.
Result run(CollectiveKind kind, int ranks, int radix, i64 extent, bool tight)
{
    const auto count = static_cast<std::size_t>(ranks);
    const auto shape_of = [&](int rank, std::vector<std::vector<float>>& in, std::vector<float>& out) {
        CollectiveShape shape{kind, DType::f32, Combine::sum, {}, radix};
        std::vector<std::size_t> places;
        for (const Operand& o :
             {Operand{2, extent, 3, nullptr, nullptr}, Operand{1, 5, 1, nullptr, nullptr}}) {
            const i64 whole = o.outer * o.extent * o.inner,
                      part = o.outer * part_of(o.extent, ranks, rank).size * o.inner;
            std::mt19937 random(static_cast<unsigned>(rank) + 100);
            std::vector<float>& numbers = in.emplace_back();
            for (i64 i = 0; i < (kind == CollectiveKind::all_gather ? part : whole); ++i)
                numbers.push_back(std::ldexp(static_cast<float>(random() % 2001) - 1000.f,
                                             static_cast<int>(random() % 20) - 10));
            places.push_back(out.size());
            out.resize(out.size() +
                       static_cast<std::size_t>(kind == CollectiveKind::reduce_scatter ? part : whole));
            shape.operands.push_back(o);
        }
        for (std::size_t k = 0; k < places.size(); ++k) {
            shape.operands[k].in = in[k].data();
            shape.operands[k].out = out.data() + places[k];
        }
        return shape;
    };
    Result result;
    result.out.resize(count);
    std::vector<std::vector<std::vector<float>>> in(count);
    std::vector<std::vector<std::byte>> scratch(count);
    std::vector<CollectiveRounds> rounds;
    for (int r = 0; r < ranks; ++r) {
        const auto at = static_cast<std::size_t>(r);
        const CollectiveShape shape = shape_of(r, in[at], result.out[at]);
        const CollectiveScratch needs = collective_scratch(shape, ranks);
        const Bytes bytes = tight ? needs.least : needs.best;
        scratch[at].resize(static_cast<std::size_t>(bytes + 64));
        const auto begin = reinterpret_cast<std::uintptr_t>(scratch[at].data());
        rounds.emplace_back(shape, ranks, r, Piece{scratch[at].data() + (64 - begin % 64) % 64, bytes});
    }
    std::vector<int> sent(count, 0);
    std::vector<Round> now(count);
    for (;;) {
        std::size_t going = 0;
        for (std::size_t r = 0; r < count; ++r)
            if (rounds[r].next(now[r])) {
                copy_blocks(now[r].pack);
                ++going;
            }
        if (going == 0)
            break;
        REQUIRE(going == count);
        for (std::size_t from = 0; from < count; ++from)
            for (std::size_t to = 0; to < count; ++to) {
                const ConstPiece piece = now[from].sends[to];
                const Piece place = now[to].receives[from];
                REQUIRE(piece.bytes == place.bytes);
                if (piece.bytes > 0)
                    std::memcpy(place.data, piece.data, static_cast<std::size_t>(piece.bytes));
                sent[from] += piece.bytes > 0 ? 1 : 0;
            }
        for (std::size_t r = 0; r < count; ++r) {
            copy_blocks(now[r].keep);
            combine_blocks(now[r].combination);
            copy_blocks(now[r].spread);
        }
    }
    result.messages = *std::max_element(sent.begin(), sent.end());
    return result;
}

} // namespace

TEST_CASE("ranks that forward each other's pieces compute the same bits, with few messages")
{
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
        for (const int ranks : {3, 5, 8, 13, 33, 70})
            for (const i64 extent : {i64{1}, i64{ranks}, i64{2} * ranks + 3}) {
                const Result direct = run(kind, ranks, ranks, extent, false);
                for (const int radix : {2, 3, 9}) {
                    if (radix >= ranks)
                        continue;
                    INFO(static_cast<int>(kind)
                         << " of " << extent << " on " << ranks << " ranks, radix " << radix);
                    for (const bool tight : {false, true})
                        CHECK(run(kind, ranks, radix, extent, tight).out == direct.out);
                    int phases = 0;
                    for (i64 reached = 1; reached < ranks; reached *= radix)
                        ++phases;
                    const int parts = kind == CollectiveKind::all_reduce ? 2 : 1;
                    CHECK(run(kind, ranks, radix, extent, false).messages <= parts * phases * (radix - 1));
                }
            }
}

TEST_CASE("small groups exchange directly, large ones in phases")
{
    for (const int ranks : {2, 3, 8, 32})
        CHECK(collective_radix(ranks, 4) == ranks);
    CHECK(collective_radix(64, 2048) == 2);
    CHECK(collective_radix(256, 1 << 20) == 256);
    CHECK(collective_radix(1024, 1 << 20) == 32);
    CHECK(collective_radix(16384, 1 << 20) == 128);
    const CollectiveShape scalar{
        CollectiveKind::all_reduce, DType::f32, Combine::sum, {{1, 1, 1, nullptr, nullptr}}};
    CHECK(collective_scratch(scalar, 16384).best <= Bytes{4} << 20);
}
