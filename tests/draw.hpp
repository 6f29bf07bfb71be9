#pragma once
// Random numbers of tests: the same on every machine for the same seed.
#include "base/units.hpp"

#include <random>

namespace trivium {

using Draw = std::mt19937_64;

/// In [0, n).
inline i64 below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<u64>(n)); }

} // namespace trivium
