#pragma once
// The cheapest moves between two layouts in which axes change places.
#include "passes/moves.hpp"

namespace trivium {

/// See moves_between().
std::vector<Move> search_moves(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                               int* layouts);

/// All sums, then one exchange, in which each rank gets just what it lacks.
std::vector<Move> direct_moves(const Layout& from, const DimAxes& to);

} // namespace trivium
