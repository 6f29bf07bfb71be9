// The losses that are stored for other machines are those of this machine.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/drawn.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

using namespace trivium;
using namespace trivium::grids;

TEST_CASE("there are a dozen drawn grids, with every number of ranks and every precision")
{
    std::set<std::string> seen;
    std::map<i64, int> of_ranks;
    for (const Case& c : drawn_cases()) {
        seen.insert(c.text());
        ++of_ranks[c.ranks()];
    }
    CHECK(seen.size() == 12);
    for (const i64 ranks : {1, 2, 4, 8})
        CHECK(of_ranks[ranks] == 3);
}

TEST_CASE("drawn grids have their stored losses", "[release]")
{
    if (std::getenv("TRIVIUM_UPDATE_GOLDEN")) {
        std::ofstream file(std::string(TRIVIUM_TEST_DATA) + "/golden/losses.txt");
        for (const Case& c : drawn_cases())
            file << losses_line(c, train_on_threads(c).losses);
    }
    for (const Case& c : drawn_cases()) {
        INFO(c.text());
        const std::vector<double> kept = kept_losses(c);
        REQUIRE(kept.size() == static_cast<std::size_t>(c.steps));
        CHECK(largest_difference(train_on_threads(c).losses, kept) < drawn_tolerance(c));
    }
}
