#pragma once
// Covering arrays: a small set of rows such that every pair of levels of any two factors occurs in some row.
#include <functional>
#include <vector>

namespace trivium {

/// Further requirements for a covering array.
struct CoveringRules {
    /// Whether a row exercises its pair of levels of factors f < g. Depends only on the levels of the first
    /// `leading` factors; others may be -1. Empty: every row does.
    std::function<bool(const std::vector<int>& row, int f, int g)> counts{};
    std::size_t leading = 0;
    std::vector<std::vector<int>> begun{}; ///< rows to start with
};

/// Rows with one level per factor; `levels` has the number of levels of each factor. Each pair of levels that
/// counts in some row counts in one of these. Deterministic and greedy: each row starts with a new pair and
/// takes, for every other factor, the level with the most new pairs (Cohen et al. 1997, "The AETG system").
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, const CoveringRules& rules = {});

/// All rows, the last factor fastest.
std::vector<std::vector<int>> full_product(const std::vector<int>& levels);

} // namespace trivium
