// Exchanges of the rows of a mixture of experts, row by row against lists.
#include "comm_suite.hpp"
#include "mpi/row_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <random>

using namespace trivium;

namespace {

using Draw = std::mt19937_64;
using Rows = std::vector<std::vector<u64>>; ///< by row; a row of zeros: nothing

i64 some_below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<u64>(n)); }

/// An exchange with drawn counts, and what each group and each rank of experts should get.
struct RowTrial {
    RowExchangeShape shape;
    std::vector<i32> counts;
    Rows tokens, experts, back; ///< [blocks, groups] buffers one after the other

    RowTrial(Draw& draw, int members)
    {
        shape.blocks = 1 + some_below(draw, 2);
        shape.groups = members * (1 + some_below(draw, 2));
        shape.experts = shape.groups * (1 + some_below(draw, 3));
        const i64 width = 1 + some_below(draw, 4);
        shape.row = width * 8;
        shape.sent = 1 + some_below(draw, 20);
        const auto zeros = [&](i64 rows) {
            return Rows(static_cast<std::size_t>(shape.blocks * shape.groups * rows),
                        std::vector<u64>(static_cast<std::size_t>(width), 0));
        };
        tokens = zeros(shape.sent);
        counts.assign(static_cast<std::size_t>(shape.counts()), 0);
        const i64 kind = some_below(draw, 4); // some groups without rows; all rows to one expert
        const i64 favourite = some_below(draw, shape.experts);
        i64 most = 0;
        for (i64 block = 0; block < shape.blocks; ++block)
            for (i64 g = 0; g < shape.groups; ++g) {
                i64 rows = kind == 0 && some_below(draw, 2) == 0 ? 0 : some_below(draw, shape.sent + 1);
                for (i64 r = 0; r < rows; ++r) {
                    ++count(block, g, kind == 1 ? favourite : some_below(draw, shape.experts));
                    std::vector<u64>& row = tokens[at(block, g, shape.sent, r)];
                    std::ranges::generate(row, [&] { return draw() | 1; });
                }
                most = std::max(most, rows);
            }
        const i64 worst = shape.groups * most;
        shape.received = some_below(draw, 2) == 0 ? worst + some_below(draw, 3) : some_below(draw, worst + 1);
        experts = zeros(shape.received);
        back = zeros(shape.sent);
        const i64 of_rank = shape.experts / shape.groups;
        for (i64 block = 0; block < shape.blocks; ++block)
            for (i64 rank = 0; rank < shape.groups; ++rank) {
                i64 place = 0;
                for (i64 e = rank * of_rank; e < (rank + 1) * of_rank; ++e)
                    for (i64 g = 0; g < shape.groups; ++g) {
                        i64 row = 0;
                        for (i64 before = 0; before < e; ++before)
                            row += count(block, g, before);
                        for (i64 r = 0; r < count(block, g, e); ++r, ++row, ++place)
                            if (place < shape.received) {
                                const std::vector<u64>& sent = tokens[at(block, g, shape.sent, row)];
                                experts[at(block, rank, shape.received, place)] = sent;
                                back[at(block, g, shape.sent, row)] = sent;
                            }
                    }
            }
    }

    i32& count(i64 block, i64 group, i64 expert)
    {
        return counts[static_cast<std::size_t>((block * shape.groups + group) * shape.experts + expert)];
    }
    std::size_t at(i64 block, i64 group, i64 rows, i64 row) const
    {
        return static_cast<std::size_t>((block * shape.groups + group) * rows + row);
    }
    /// What a member has of `all`, whose groups have `rows` rows.
    std::vector<u64> part(const Rows& all, i64 rows, int members, int member) const
    {
        std::vector<u64> own;
        const i64 groups = shape.groups / members;
        for (i64 block = 0; block < shape.blocks; ++block)
            for (i64 g = member * groups; g < (member + 1) * groups; ++g)
                for (i64 r = 0; r < rows; ++r) {
                    const std::vector<u64>& row = all[at(block, g, rows, r)];
                    own.insert(own.end(), row.begin(), row.end());
                }
        return own;
    }
};

void run(Comm& comm, RowExchangeShape shape, const RowTrial& trial, const Rows& in, const Rows& out,
         bool backwards, const std::string& what)
{
    shape.backwards = backwards;
    const i64 from = backwards ? shape.received : shape.sent, to = backwards ? shape.sent : shape.received;
    const std::vector<u64> mine = trial.part(in, from, comm.size(), comm.rank()),
                           expected = trial.part(out, to, comm.size(), comm.rank());
    std::vector<u64> result(expected.size() + 1, ~u64{0}); // with a guard
    RowExchange exchange(comm, shape, mine.data(), trial.counts.data(), result.data());
    for (int again = 0; again < 2; ++again) {
        std::ranges::fill(result, ~u64{0});
        exchange.start();
        if (again)
            exchange.progress();
        exchange.finish();
        TRV_CHECK(exchange.progress() && exchange.waits_for().empty(), what, ": over, and yet not");
        TRV_CHECK(result.back() == ~u64{0}, what, ": wrote beyond its rows");
        TRV_CHECK(std::equal(expected.begin(), expected.end(), result.begin()), what, ": other rows");
    }
}

void random_row_exchanges(Comm& comm)
{
    for (u64 seed = 1; seed <= 100; ++seed) {
        Draw draw(seed * 100 + static_cast<u64>(comm.size())); // the same on all ranks
        const RowTrial trial(draw, comm.size());
        run(comm, trial.shape, trial, trial.tokens, trial.experts, false, str("seed ", seed));
        run(comm, trial.shape, trial, trial.experts, trial.back, true, str("back, seed ", seed));
    }
}

/// All members refuse, before any of them sends.
void refused_rows(Comm& comm)
{
    const int ranks = comm.size();
    RowExchangeShape shape{.groups = ranks, .experts = ranks, .sent = 5, .received = 5 * ranks - 1, .row = 8};
    shape.drops = false;
    shape.place = "layers.0.experts";
    std::vector<i32> counts(static_cast<std::size_t>(ranks * ranks), 0);
    for (int g = 0; g < ranks; ++g)
        counts[static_cast<std::size_t>(g * ranks + ranks - 1)] = 5;
    std::vector<u64> in(5, 1), out(static_cast<std::size_t>(shape.received));
    const auto message = [&] {
        try {
            RowExchange(comm, shape, in.data(), counts.data(), out.data()).start();
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const auto expect = [&](const std::string& part) {
        TRV_CHECK(message().find(part) != std::string::npos, "the message is ", message());
    };
    expect(str("expert rank ", ranks - 1, ": ", 5 * ranks, " rows arrive, its buffer has ", 5 * ranks - 1));
    counts[0] = -1;
    expect("group 0 has -1 rows for expert 0");
    counts[0] = 6;
    expect(str("the counts of group 0 add up to ", ranks > 1 ? 11 : 6, " rows, it has 5"));
}

} // namespace

std::vector<RankCase> row_exchange_cases()
{
    return {{"random exchanges of rows", random_row_exchanges}, {"refused rows", refused_rows}};
}
