#pragma once
// The cheapest choice for many variables whose costs are tables over a few of them each: variable elimination
// (non-serial dynamic programming: Bertele and Brioschi, 1972; "bucket elimination": Dechter, 1999).
#include <cstddef>
#include <vector>

namespace trivium {

/// A cost for every combination of values of some variables; the first variable varies fastest.
struct CostTable {
    std::vector<std::size_t> variables; ///< ascending, at least one
    std::vector<double> costs;
};

struct CostProblem {
    std::vector<std::size_t> sizes; ///< by variable: how many values it has
    std::vector<CostTable> tables;  ///< the sum of their entries is the cost
};

/// The largest table that elimination makes.
inline constexpr std::size_t elimination_limit = 1 << 14;

/// A value for each variable that costs no more than `start`, and less where the tables allow. Eliminates the
/// variable next to the smallest table first: a chain, a tree, or what is nearly one is solved exactly.
/// Where every table would have more than `limit` entries, a variable keeps its value; up to `rounds` times,
/// each from the result of the last one and with other such variables, until nothing changes. Takes
/// O(variables * limit) per round.
std::vector<std::size_t> cheapest(const CostProblem& problem, std::vector<std::size_t> start,
                                  std::size_t limit = elimination_limit, int rounds = 4);

} // namespace trivium
