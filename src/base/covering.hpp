#pragma once
// Covering arrays: few rows that have every pair of levels of any two factors in some row.
#include <vector>

namespace trivium {

/// A level for each factor; `levels` says how many a factor has. Deterministic. Greedy: each row begins with a pair
/// that no row has yet, and takes for every other factor the level with the most new pairs (Cohen et al. 1997, "The
/// AETG system").
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels);

/// Every row there is, the last factor fastest.
std::vector<std::vector<int>> full_product(const std::vector<int>& levels);

} // namespace trivium
