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
/// waits for it. What single stages of a rank keep has different slots at a time. Where a rank has several
/// stages, the values of one size that they keep from one task to another share the buffers: as many as they
/// need at a time.
class BufferSlots {
public:
    /// `root`: Roots::of. `order`: of all ranks, or null if no message has a reader. `graph` must outlive the
    /// BufferSlots.
    BufferSlots(const Graph& graph, std::vector<ValueId> root, const RankOrder& tasks, i64 microbatches,
                const PipelineOrder* order);

    ValueId root(ValueId v) const { return root_[v.index()]; }
    /// Number of buffers: one past the largest index_of().
    std::size_t count() const { return count_; }
    std::size_t slot_of(ValueId v, i64 microbatch) const
    {
        return graph_[v].lifetime == Lifetime::microbatch
                   ? slot_[row_[root(v).index()]][static_cast<std::size_t>(microbatch)]
                   : 0;
    }
    std::size_t index_of(ValueId v, i64 microbatch) const
    {
        return first_[root(v).index()] + slot_of(v, microbatch);
    }
    /// The largest number of slots of a value.
    i64 slots() const { return static_cast<i64>(slots_); }

private:
    /// Who uses a value in a microbatch.
    struct Users {
        std::set<Phase> phases;
        std::set<int> stages;  ///< of this rank
        std::set<i64> readers; ///< Attributes::reader
        auto operator<=>(const Users&) const = default;
        bool are_in(const Task& task) const;
        /// One stage of this rank, and none of another.
        bool is_one_stage() const { return stages.size() == 1 && readers.empty(); }
    };
    struct Holder {
        std::vector<std::size_t> rows; ///< of slot_
        std::vector<ValueId> values;   ///< by row; with one row, all have that one
    };
    /// Who takes slots of one pool. With `shares`, its slots are buffers, otherwise each value has its own.
    struct Pool {
        std::map<Users, Holder> holders;
        bool shares = false;
    };

    struct Uses {
        Users users;
        std::set<Phase> phases; ///< in which it is used
        bool alone = false;     ///< it shares its buffers with no other value
    };

    /// By root value.
    std::vector<Uses> uses_of_values(const PipelineOrder* order) const;
    /// What collectives bring to the products of weight gradients may be there long before. It takes turns in
    /// as many buffers as a block needs, at least two, so that a task does not have all of it in memory.
    void take_turns(const std::vector<Uses>& uses);
    /// By microbatch: the first task for which its slot is free again.
    std::vector<std::size_t> ends_of(const Users& users, const RankOrder& tasks, const PipelineOrder* order);
    /// Gives the microbatches of each value its slots.
    void give_slots(const RankOrder& tasks, const PipelineOrder* order, const Pool& pool);

    const Graph& graph_;
    std::vector<ValueId> root_;
    std::vector<std::size_t> row_;               ///< by root value, of slot_
    std::vector<std::vector<std::size_t>> slot_; ///< by row, then by microbatch
    std::vector<std::size_t> first_;             ///< by root value: index_of() its slot 0
    std::size_t count_ = 0;
    std::map<i64, std::vector<i64>> ended_; ///< by other rank: ended_before()
    i64 microbatches_ = 1;
    bool trains_ = false; ///< otherwise a value has one slot
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
