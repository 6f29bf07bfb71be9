#pragma once
// Values that are boxes of other values, so that a reader of a part can read the other value instead.
#include "ir/graph.hpp"

#include <optional>
#include <vector>

namespace trivium {

/// A value that is the box of `whole` that begins at `offset`.
struct SliceOf {
    ValueId whole;
    std::vector<i64> offset;

    /// The box of the slice as a box of `whole`.
    Box in_whole(Box box) const;
};

/// By value: what it is a slice of, if an op with OpInfo::slices computes it, without a stride, and only one
/// op reads it: by a window, in the same region, phase and block.
std::vector<std::optional<SliceOf>> slices_of(const Graph& graph);

} // namespace trivium
