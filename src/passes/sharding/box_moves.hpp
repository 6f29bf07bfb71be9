#pragma once
// Moves between shards and the other boxes that ops with windows and reshapes read and compute.
#include "passes/sharding/moves.hpp"

#include <functional>

namespace trivium {

/// The box of a tensor for the rank at the given coordinates.
using BoxOf = std::function<Box(const Coordinates&)>;

/// The offsets and shapes of the boxes of all ranks along `axes`, of which boxes depend.
std::vector<i64> numbers_of(const Mesh& mesh, const std::vector<std::string>& axes, const BoxOf& boxes);

/// Whether ranks only swap what they have; by rank.
bool permutes(std::vector<Box> have, std::vector<Box> need);

/// The box `need` of the local value x, which is the box `have` of the same tensor. \pre `have` contains
/// `need`
ValueId sliced(Builder& builder, ValueId x, const Box& have, Box need);

/// Appends one exchange, after which each rank has the box `needed`. `x` is the value of the rank at `at`,
/// its box `owned`, sharded by `axes`. Ranks exchange along the axes of the dimensions in which some rank's
/// boxes differ. Throws UserError as require_few().
ValueId exchanged(Builder& builder, const Coordinates& at, ValueId x, const DimAxes& axes, const BoxOf& owned,
                  const BoxOf& needed);

} // namespace trivium
