#pragma once
// Moves to boxes that are not shards: what windows and reshapes read and make.
#include "passes/moves.hpp"

#include <functional>

namespace trivium {

/// The box of a tensor that each rank has, by its coordinates.
using BoxOf = std::function<Box(const Coordinates&)>;

/// The part `need` of the local value x, which is the box `have`.
ValueId sliced(Builder& builder, ValueId x, const Box& have, Box need);

/// Each rank gets the box that it needs, from those that the ranks own along the axes of the dimensions in
/// which some rank needs something else than it has. `x` is the value of the rank at `at`, sharded by `axes`.
ValueId exchanged(Builder& builder, const Coordinates& at, ValueId x, const DimAxes& axes, const BoxOf& owned,
                  const BoxOf& needed);

} // namespace trivium
