#pragma once
// Covering arrays: few rows that have every pair of levels of any two factors in some row.
#include <functional>
#include <vector>

namespace trivium {

/// What is asked of a covering array beyond its levels.
struct CoveringRules {
    /// Whether a row exercises its pair of levels of factors f < g. It depends on the levels of the first
    /// `leading` factors alone; others may be -1. None given: each does.
    std::function<bool(const std::vector<int>& row, int f, int g)> counts{};
    std::size_t leading = 0;
    std::vector<std::vector<int>> begun{}; ///< rows that come first
};

/// A level for each factor; `levels` says how many a factor has. Each pair of levels that counts in some row
/// counts in one of these. Deterministic. Greedy: each row begins with a pair that no row has yet, and takes
/// for every other factor the level with the most new pairs (Cohen et al. 1997, "The AETG system"), and of
/// equals any, whatever other factors take.
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, const CoveringRules& rules = {});

/// Every row there is, the last factor fastest.
std::vector<std::vector<int>> full_product(const std::vector<int>& levels);

} // namespace trivium
