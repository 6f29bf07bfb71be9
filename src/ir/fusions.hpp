#pragma once
// Which two ops one op can do: what the pass `fuse` goes by.
#include "ir/op_table.hpp"

namespace trivium {

/// `second` reads the only result of `first` as its operand `through`. The op `fused` takes the operands of
/// `first` and the others of `second`, has the attributes of both, and gives the results of `second`; where
/// its row has one result more, that is what went through.
struct Fusion {
    OpKind first, second;
    int through = 0;
    OpKind fused;
    /// Whether these two are of the shape that `fused` wants; null: always.
    bool (*fits)(const FactorRule& first, const FactorRule& second) = nullptr;
};

/// The first row that fits two ops of a graph, or null.
const Fusion* find_fusion(const Graph& graph, const Op& first, const Op& second);
/// Whether the op `fused` also gives what went through.
bool keeps_middle(const Fusion& fusion);
/// The one op in place of the two. \pre `fusion` is theirs
Op fused_op(const Graph& graph, const Op& first, const Op& second, const Fusion& fusion);

} // namespace trivium
