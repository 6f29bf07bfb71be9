#pragma once
// Which two ops can be fused into one: the table of the pass `fuse`.
#include "ir/op_table.hpp"

namespace trivium {

/// `second` reads the only result of `first` as its operand `through`. The op `fused` takes the operands of
/// `first` and the others of `second`, has the attributes of both, and gives the results of `second`; where
/// its row has one result more, that is what went through.
struct Fusion {
    OpKind first, second;
    int through = 0;
    OpKind fused;
    /// Whether `fused` can do these two, by their rules; null: always.
    bool (*fits)(const FactorRule& first, const FactorRule& second) = nullptr;
};

/// The first row that fits two ops of a graph, or null.
const Fusion* find_fusion(const Graph& graph, const Op& first, const Op& second);
/// Whether the fused op also has the value between the two as a result.
bool keeps_middle(const Fusion& fusion);
/// The one op in place of the two. \pre `fusion` is find_fusion() of them
Op fused_op(const Graph& graph, const Op& first, const Op& second, const Fusion& fusion);

} // namespace trivium
