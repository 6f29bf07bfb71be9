#pragma once
// Which two ops can be fused into one: the table of the pass `fuse`.
#include "ir/ops/op_table.hpp"

namespace trivium {

/// `second` reads the only result of `first` as its operand `through`. The op `fused` has the operands of
/// `first` and the other operands of `second`, the attributes of both, and the results of `second`. If its
/// row has one more result, that is the intermediate value.
struct Fusion {
    OpKind first, second;
    int through = 0;
    OpKind fused;
    /// Whether the rules of the two ops allow it; null: always.
    bool (*fits)(const FactorRule& first, const FactorRule& second) = nullptr;
    /// The fusion does not apply in the forward phase, where sums must have the same rounding in training, in
    /// evaluation, and with any number of pipeline stages.
    bool gradients_only = false;
};

/// The first row that fits two ops of a graph, or null. The caller checks region, phase, stage, and other
/// readers of the intermediate value.
const Fusion* find_fusion(const Graph& graph, const Op& first, const Op& second);
/// Whether the fused op also returns the intermediate value.
bool keeps_middle(const Fusion& fusion);
/// The op that replaces `first` and `second`. \pre `fusion` is find_fusion() of them
Op fused_op(const Graph& graph, const Op& first, const Op& second, const Fusion& fusion);

/// Whether the op's result is its operand, bit for bit: a cast to the same type.
bool is_idle(const Graph& graph, const Op& op);

} // namespace trivium
