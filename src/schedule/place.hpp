#pragma once
// The places of communication among the Steps: gathers before their use, readers of reductions after them.
#include "schedule/unroll.hpp"

#include <map>
#include <set>

namespace trivium {

/// The buffers of an unrolled graph: each root value (roots.hpp) has one buffer per slot. A microbatch has
/// its slot of a value from the first to the last task that uses it; of what is fed, fetched or moved, of the
/// stages that use it, so that no transfer waits for the next microbatch; of what another stage than a
/// neighbour reads (Attributes::reader), until `order` implies that it has been read, so that no microbatch
/// waits for it. What single stages of a rank keep has different slots at a time.
class BufferSlots {
public:
    /// `root`: Roots::of. `order`: of all ranks, or null if no message has a reader. `graph` must outlive the
    /// BufferSlots.
    BufferSlots(const Graph& graph, std::vector<ValueId> root, const RankOrder& tasks, i64 microbatches,
                const PipelineOrder* order);

    ValueId root(ValueId v) const { return root_[v.index()]; }
    std::size_t count() const { return root_.size() * slots_; }
    std::size_t slot_of(ValueId v, i64 microbatch) const
    {
        return graph_[v].lifetime == Lifetime::microbatch
                   ? slot_[users_[root(v).index()]][static_cast<std::size_t>(microbatch)]
                   : 0;
    }
    std::size_t index_of(ValueId v, i64 microbatch) const
    {
        return root(v).index() * slots_ + slot_of(v, microbatch);
    }
    /// The largest number of slots of a pool.
    i64 slots() const { return static_cast<i64>(slots_); }

private:
    /// Who uses a value in a microbatch.
    struct Users {
        std::set<Phase> phases;
        std::set<int> stages;  ///< of this rank
        std::set<i64> readers; ///< Attributes::reader
        auto operator<=>(const Users&) const = default;
        bool are_in(const Task& task) const;
    };
    using SetOfUsers = std::pair<Users, std::size_t>; ///< with its index in slot_

    /// By microbatch: the first task for which its slot is free again.
    std::vector<std::size_t> ends_of(const Users& users, const RankOrder& tasks, const PipelineOrder* order);
    /// Gives the microbatches of each of these sets their slots, of one pool.
    void give_slots(const RankOrder& tasks, const PipelineOrder* order, const std::vector<SetOfUsers>& sets);

    const Graph& graph_;
    std::vector<ValueId> root_;
    std::vector<std::size_t> users_;             ///< by root value: its set of users
    std::vector<std::vector<std::size_t>> slot_; ///< by set of users, then by microbatch
    std::map<i64, std::vector<i64>> ended_;      ///< by other rank: ended_before()
    i64 microbatches_ = 1;
    std::size_t slots_ = 1;
};

/// Reorders the items, across phases and microbatches but not over the decision. Every item reads and writes
/// the same contents as before.
/// - Gather k + 1 of an axis goes to just before the first op that reads gather k, or later to where its
///   buffer is free (SimpleFSDP, arXiv:2411.00284, section 4.2). So it overlaps with that op and those after
///   it, and at most two gathers of an axis are in memory.
/// - An exchange of boxes goes to just behind what it sends, but not over another collective of its axis,
/// unless
///   both begin together (Op::together).
/// - With `receive_early`, the receives of each sender and tag move like the gathers of an axis.
/// - The op that adds a reduced gradient to its accumulator goes to just before the next reduction of the
///   axis, so at most two reduced gradients of an axis are in memory.
void place_communication(const Graph& graph, const BufferSlots& buffers, bool receive_early,
                         Unrolled& unrolled);

} // namespace trivium
