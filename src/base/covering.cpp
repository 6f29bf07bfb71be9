#include "base/covering.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace trivium {

namespace {

using Level = std::pair<int, int>; ///< factor, level
using Pair = std::pair<Level, Level>;

Pair pair_of(Level a, Level b) { return a < b ? Pair{a, b} : Pair{b, a}; }

} // namespace

std::vector<std::vector<int>> covering_array(const std::vector<int>& levels)
{
    const int factors = static_cast<int>(levels.size());
    std::set<Pair> missing;
    for (int f = 0; f < factors; ++f)
        for (int g = f + 1; g < factors; ++g)
            for (int a = 0; a < levels[static_cast<std::size_t>(f)]; ++a)
                for (int b = 0; b < levels[static_cast<std::size_t>(g)]; ++b)
                    missing.insert({{f, a}, {g, b}});
    std::vector<std::vector<int>> rows;
    while (!missing.empty()) {
        std::vector<int> row(levels.size(), -1);
        const auto set = [&](Level at) { row[static_cast<std::size_t>(at.first)] = at.second; };
        set(missing.begin()->first);
        set(missing.begin()->second);
        for (int f = 0; f < factors; ++f) {
            if (row[static_cast<std::size_t>(f)] >= 0)
                continue;
            const int count = levels[static_cast<std::size_t>(f)];
            int best = 0, most = -1;
            for (int n = 0; n < count; ++n) {
                const int a = (n + static_cast<int>(rows.size())) % count; // ties go round
                int fresh = 0;
                for (int g = 0; g < factors; ++g)
                    if (const int b = row[static_cast<std::size_t>(g)]; b >= 0)
                        fresh += static_cast<int>(missing.count(pair_of({f, a}, {g, b})));
                if (fresh > most) {
                    most = fresh;
                    best = a;
                }
            }
            set({f, best});
        }
        for (int f = 0; f < factors; ++f)
            for (int g = f + 1; g < factors; ++g)
                missing.erase({{f, row[static_cast<std::size_t>(f)]}, {g, row[static_cast<std::size_t>(g)]}});
        rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<std::vector<int>> full_product(const std::vector<int>& levels)
{
    std::vector<std::vector<int>> rows{{}};
    for (const int count : levels) {
        std::vector<std::vector<int>> longer;
        for (const std::vector<int>& row : rows)
            for (int a = 0; a < count; ++a) {
                longer.push_back(row);
                longer.back().push_back(a);
            }
        rows = std::move(longer);
    }
    return rows;
}

} // namespace trivium
