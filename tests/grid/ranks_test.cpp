// Under a launcher, one launch per number of ranks: cases over MPI against one rank, and against the same
// number of threads.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "mpi/session.hpp"

#include <cstdio>
#include <cstdlib>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// Every n-th of the cases, so that a launch takes a few seconds.
constexpr std::size_t cases_of_a_launch = contracts_on ? 1 : 8;

int run(Session& session)
{
    Comm& world = session.world();
    const char* const expected = std::getenv("TRIVIUM_TEST_RANKS");
    TRV_CHECK(expected && std::to_string(world.size()) == expected, "the launcher started ", world.size(),
              " ranks");
    std::vector<Case> mine;
    for (const Case& c : covering_cases(true))
        if (c.ranks() == world.size())
            mine.push_back(c);
    const std::size_t step = std::max<std::size_t>(1, mine.size() / cases_of_a_launch);
    std::size_t done = 0;
    for (std::size_t i = 0; i < mine.size(); i += step, ++done) {
        const Case& c = mine[i];
        const Outcome got = train(c, world);
        succeed_together(world, [&] {
            if (world.rank() != 0)
                return;
            const Differences d = differences(got, alone_outcome(c));
            TRV_CHECK(d.most() < 1e-9, c.text(), ": ", d.text());
            TRV_CHECK(same_bits(got, train_on_threads(c)), c.text(),
                      ": threads have other bits than processes");
        });
    }
    if (world.rank() == 0)
        std::printf("%zu cases on %d ranks\n", done, world.size());
    return 0;
}

} // namespace

TEST_CASE("the same result over MPI")
{
    runs::start_runtime();
    CHECK(run_session(run) == 0);
}
