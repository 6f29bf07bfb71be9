#pragma once
// Where communication stands among the Steps: gathers ahead of their use, readers of reductions after them.
#include "schedule/unroll.hpp"

namespace trivium {

/// The buffers of an unrolled graph: each root value has one per slot. A microbatch keeps its slot of a value
/// from the first to the last task of the stages that use the value.
class BufferSlots {
public:
    /// `root`: by value, the value whose buffer it uses.
    BufferSlots(const Graph& graph, std::vector<ValueId> root, const RankOrder& tasks, i64 microbatches);

    ValueId root(ValueId v) const { return root_[v.index()]; }
    std::size_t count() const { return root_.size() * slots_; }
    std::size_t slot_of(ValueId v, i64 microbatch) const
    {
        return graph_[v].lifetime == Lifetime::microbatch
                   ? slot_[stages_[root(v).index()]][static_cast<std::size_t>(microbatch)]
                   : 0;
    }
    std::size_t index_of(ValueId v, i64 microbatch) const
    {
        return root(v).index() * slots_ + slot_of(v, microbatch);
    }
    /// Microbatches of which buffers exist at the same time.
    i64 slots() const { return static_cast<i64>(slots_); }

private:
    const Graph& graph_;
    std::vector<ValueId> root_;
    std::vector<std::size_t> stages_;            ///< by root value: its set of stages
    std::vector<std::vector<std::size_t>> slot_; ///< by set of stages, then by microbatch
    std::size_t slots_ = 1;
};

/// Reorders the items, across phases and microbatches; no item reads or writes other contents than before.
/// Gather k + 1 of an axis begins before the first op that reads gather k (SimpleFSDP, arXiv:2411.00284,
/// section 4.2), so it runs while that op and those after it compute, and at most two are in memory. The op
/// that adds a reduced gradient to its accumulator goes to just before the next such reduction, so at most
/// two of those are in memory. With `receive_early`, the same holds for the receives of each sender and tag
/// as for the gathers of an axis, as far as their buffers are free.
void place_communication(const Graph& graph, const BufferSlots& buffers, bool receive_early,
                         Unrolled& unrolled);

} // namespace trivium
