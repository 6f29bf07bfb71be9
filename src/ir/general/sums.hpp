#pragma once
// Sums of values that are made of others.
#include "ir/builder.hpp"

namespace trivium {

/// The sum of `v` over the dimensions `dims`, which are ascending. Where `v` is a combination of other values
/// with factors that do not change along `dims`, it is the combination of their sums, if at most one of those
/// is not in the graph yet. That one waits for no factor, so ranks that share these dimensions may reduce it
/// together with what the factors are made of.
ValueId sum_over(Builder& b, ValueId v, const std::vector<i64>& dims);

} // namespace trivium
