#pragma once
// Minimises a sum of tables, each over a few of many variables: variable elimination (non-serial dynamic
// programming: Bertele and Brioschi, 1972; "bucket elimination": Dechter, 1999).
#include <cstddef>
#include <vector>

namespace trivium {

/// A cost for every combination of values of some variables; the first variable varies fastest.
struct CostTable {
    std::vector<std::size_t> variables; ///< ascending, at least one
    std::vector<double> costs;
};

struct CostProblem {
    std::vector<std::size_t> sizes; ///< by variable: its number of values
    std::vector<CostTable> tables;  ///< the cost is the sum of one entry of each
};

/// Maximum entries of a table that elimination makes.
inline constexpr std::size_t elimination_limit = 1 << 14;

/// A value for each variable; all together cost no more than `start`. Eliminates first the variable whose
/// elimination makes the smallest table, so chains, trees and similar problems are solved exactly. Where
/// every table would have more than `limit` entries, a variable keeps its value from `start`; up to 4
/// rounds, each from the result of the last one and with other such variables, until nothing changes. Takes
/// O(variables * limit) per round.
std::vector<std::size_t> cheapest(const CostProblem& problem, std::vector<std::size_t> start,
                                  std::size_t limit = elimination_limit);

} // namespace trivium
