#pragma once
// Covering arrays: a small set of rows such that every pair of levels of any two factors occurs in some row.
#include <functional>
#include <vector>

namespace trivium {

/// Further requirements for a covering array.
struct CoveringRules {
    /// Whether a row exercises its pair of levels of the factors f < g. The result may depend only on the
    /// levels of the first `leading` factors; other levels may be -1. Empty: a row exercises all its pairs.
    std::function<bool(const std::vector<int>& row, int f, int g)> counts{};
    std::size_t leading = 0;
    std::vector<std::vector<int>> begun{}; ///< the first rows of the result
};

/// Rows with one level per factor; `levels` has the number of levels of each factor. Each pair of levels that
/// some row exercises is exercised by a row of the result. Deterministic and greedy: each row starts with a
/// pair that is not yet covered and takes, for every other factor, the level that covers the most new pairs
/// (Cohen et al. 1997, "The AETG system").
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, const CoveringRules& rules = {});

/// All rows, the last factor fastest.
std::vector<std::vector<int>> full_product(const std::vector<int>& levels);

} // namespace trivium
