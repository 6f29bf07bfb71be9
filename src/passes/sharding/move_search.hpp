#pragma once
// The cheapest moves between two layouts in which axes change places.
#include "passes/sharding/moves.hpp"

namespace trivium {

/// The search of moves_between(); direct_moves() if it finds nothing within its limits.
std::vector<Move> search_moves(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                               int* layouts);

/// All reductions, then one exchange in which each rank gets exactly the elements that it lacks.
std::vector<Move> direct_moves(const Layout& from, const DimAxes& to);

} // namespace trivium
