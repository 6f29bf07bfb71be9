// Covering arrays with rules about which pairs count; tests/grid tests arrays without rules.
#include "base/covering.hpp"
#include "catch.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

TEST_CASE("a pair that does not count in one row is covered by another")
{
    // Factor 0 determines whether factors 1 and 2 count: 1 at its levels 1 and 2, 2 only at its level 2.
    const std::vector<int> levels{3, 2, 2, 3};
    CoveringRules rules;
    rules.leading = 1;
    rules.counts = [](const std::vector<int>& row, int f, int g) {
        const auto matters = [&](int factor) {
            return factor == 1 ? row[0] >= 1 : factor == 2 ? row[0] == 2 : true;
        };
        return matters(f) && matters(g);
    };
    rules.begun = {{2, 0, 0, 0}, {1, 1, 1, 1}};
    const auto rows = covering_array(levels, rules);
    const auto some = [&](const auto& holds) { return std::any_of(rows.begin(), rows.end(), holds); };
    CHECK(std::equal(rules.begun.begin(), rules.begun.end(), rows.begin()));
    for (int a = 0; a < 2; ++a)
        for (int b = 0; b < 2; ++b)
            CHECK(
                some([&](const std::vector<int>& row) { return row[0] == 2 && row[1] == a && row[2] == b; }));
    for (int z = 1; z < 3; ++z)
        for (int a = 0; a < 2; ++a)
            CHECK(some([&](const std::vector<int>& row) { return row[0] == z && row[1] == a; }));
    for (int z = 0; z < 3; ++z)
        for (int c = 0; c < 3; ++c)
            CHECK(some([&](const std::vector<int>& row) { return row[0] == z && row[3] == c; }));
    CHECK(rows.size() < 18); // of 36
    CHECK(covering_array(levels, rules) == rows);
}

TEST_CASE("factors do not vary in lockstep")
{
    const auto rows = covering_array({8, 2, 2, 2});
    std::set<std::vector<int>> last_three;
    for (const std::vector<int>& row : rows)
        last_three.insert({row.begin() + 1, row.end()});
    CHECK(last_three.size() >= 6); // of 8
}
