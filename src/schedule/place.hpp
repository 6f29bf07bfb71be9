#pragma once
// Where communication stands among the Steps: gathers ahead of their use, readers of reductions after them.
#include "schedule/unroll.hpp"

namespace trivium {

/// The buffers of an unrolled graph: each root value has one per slot.
struct BufferSlots {
    const Graph& graph;
    std::vector<ValueId> root; ///< by value: the value whose buffer it uses
    i64 slots = 1;             ///< microbatches of which buffers exist at the same time

    std::size_t count() const { return root.size() * static_cast<std::size_t>(slots); }
    std::size_t slot_of(ValueId v, i64 microbatch) const
    {
        return graph[v].lifetime == Lifetime::microbatch ? static_cast<std::size_t>(microbatch % slots) : 0;
    }
    std::size_t index_of(ValueId v, i64 microbatch) const
    {
        return root[v.index()].index() * static_cast<std::size_t>(slots) + slot_of(v, microbatch);
    }
};

/// Reorders the items, across phases and microbatches; no item reads or writes other contents than before.
/// Gather k + 1 of an axis begins before the first op that reads gather k (SimpleFSDP, arXiv:2411.00284,
/// section 4.2), so it runs while that op and those after it compute, and at most two are in memory. The op
/// that adds a reduced gradient to its accumulator goes to just before the next such reduction, so at most
/// two of those are in memory. With `receive_early`, the same holds for the receives of each sender and tag
/// as for the gathers of an axis, as far as their buffers are free.
void place_communication(const BufferSlots& buffers, bool receive_early, Unrolled& unrolled);

} // namespace trivium
