// Every grid with every choice of family, schedule, ZeRO, sequence parallelism, tied embeddings and way to
// shard heads: all of them if requested, otherwise as many as the time allows, drawn by the seed.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <cstdio>
#include <random>

using namespace trivium;
using namespace trivium::grids;

TEST_CASE("the same result, the full product")
{
    std::vector<Case> all = product_cases();
    const bool whole = soak::whole();
    std::mt19937_64 random(soak::seed());
    if (!whole)
        std::shuffle(all.begin(), all.end(), random);
    const soak::Budget budget;
    std::size_t tried = 0;
    for (const Case& c : all) {
        if (!whole && !budget.left())
            break;
        INFO(c.text());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(c));
        const Differences d = differences(got, alone_outcome(c));
        INFO(d.text());
        CHECK(d.most() < 1e-9);
        ++tried;
    }
    CHECK(tried > 0);
    std::printf("%zu of %zu cases\n", tried, all.size());
}
