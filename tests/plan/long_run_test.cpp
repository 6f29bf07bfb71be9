// Goodput against a run that is simulated failure by failure.
#include "catch.hpp"
#include "plan/long_run.hpp"

#include <random>

using namespace trivium;

namespace {

/// The part of the time that counts, of many checkpoint intervals with failures at random.
double simulated_goodput(const Failures& f, Seconds interval, std::mt19937_64& draw)
{
    std::exponential_distribution<double> next(1 / f.between);
    constexpr int intervals = 100'000;
    Seconds wall = 0, left = next(draw);
    for (int done = 0; done < intervals;) {
        const Seconds need = interval + f.stall;
        if (left > need) {
            left -= need;
            wall += need;
            ++done;
            continue;
        }
        wall += left;
        for (left = next(draw); left < f.restart; left = next(draw)) // fails while it starts
            wall += left;
        wall += f.restart;
        left -= f.restart;
    }
    return intervals * interval / wall;
}

} // namespace

TEST_CASE("the goodput of a long run is that of a simulation, and no other interval is better")
{
    std::mt19937_64 draw(3);
    for (const Failures& f :
         {Failures{10'000, 10, 600, 0}, Failures{100'000, 60, 300, 0}, Failures{2000, 100, 500, 0}}) {
        const LongRun run = long_run(f);
        INFO(f.between << " s, stall " << f.stall);
        CHECK(run.goodput == Approx(simulated_goodput(f, run.interval, draw)).epsilon(0.02));
        for (const double factor : {0.7, 1.5})
            CHECK(simulated_goodput(f, factor * run.interval, draw) < run.goodput * 1.005);
    }
    CHECK(long_run({10'000, 10, 600, 3000}).interval == 3000);
    CHECK(long_run({10'000, 10, 600, 3000}).goodput < long_run({10'000, 10, 600, 0}).goodput);
}
