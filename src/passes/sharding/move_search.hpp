#pragma once
// The cheapest moves between two layouts in which axes change places.
#include "passes/moves.hpp"

namespace trivium {

/// See moves_between().
std::vector<Move> search_moves(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                               int* layouts);

} // namespace trivium
