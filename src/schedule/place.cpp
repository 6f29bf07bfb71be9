#include "schedule/place.hpp"

#include "base/check.hpp"
#include "ir/collectives.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace trivium {

namespace {

constexpr std::size_t none = ~std::size_t{0};

class Placer {
public:
    Placer(const Graph& graph, const BufferSlots& buffers, bool receive_early, const Unrolled& unrolled)
        : graph_(graph), buffers_(buffers), receive_early_(receive_early), items_(unrolled.items),
          decision_(unrolled.decision), before_(items_.size(), none)
    {
        std::map<std::string, std::size_t> axes, queues;
        const auto number = [](std::map<std::string, std::size_t>& numbers, const std::string& name) {
            return name.empty() ? none : numbers.try_emplace(name, numbers.size()).first->second;
        };
        for (const Op& op : graph.ops) {
            axis_.push_back(number(axes, op.attrs->axis ? *op.attrs->axis : ""));
            early_.push_back(number(queues, early_queue(op)));
        }
    }

    /// Of each item: the item before which it goes; none: it stays.
    std::vector<std::size_t> run()
    {
        // Most graphs have not all kinds, and each takes a pass over all items.
        const auto any = [&](auto&& is) { return std::ranges::any_of(graph_.ops, is); };
        if (std::ranges::any_of(early_, [](std::size_t queue) { return queue != none; }))
            find_gathers();
        if (any([](const Op& op) { return info(op).exchanges; }))
            find_exchanges();
        if (any([&](const Op& op) { return reduction_added_by(graph_, op).valid(); }))
            find_additions();
        return std::move(before_);
    }

private:
    /// The name of the queue of an op that may begin before what it brings is read; otherwise empty.
    std::string early_queue(const Op& op) const
    {
        if (gathers_parameters(graph_, op))
            return *op.attrs->axis;
        return receive_early_ && op.attrs->from
                   ? str(*op.attrs->axis, " ", *op.attrs->from, " ", *op.attrs->tag)
                   : std::string();
    }

    /// Gathers, and receives that may be early.
    void find_gathers()
    {
        std::vector<std::size_t> reader, place;  // by gather: its first reader, and where it goes
        std::map<std::size_t, std::size_t> last; // gather of a queue
        std::vector<std::size_t> access(buffers_.count(), none);  // the last one so far
        std::vector<std::size_t> content(buffers_.count(), none); // gather
        for (std::size_t i = 0; i < items_.size(); ++i) {
            const Item& item = items_[i];
            if (item.kind != StepKind::op)
                continue;
            const Op& op = graph_[item.op];
            for (const ValueId v : op.operands)
                if (const std::size_t gather = content[buffers_.index_of(v, item.microbatch)]; gather != none)
                    reader[gather] = std::min(reader[gather], i);
            if (const std::size_t queue = early_[item.op.index()]; queue != none) {
                std::size_t to = i;
                if (const auto previous = last.find(queue); previous != last.end())
                    to = std::max({std::min(reader[previous->second], i), place[previous->second],
                                   i < decision_ ? 0 : decision_});
                for (const ValueId v : op.results) {
                    const std::size_t buffer = buffers_.index_of(v, item.microbatch);
                    if (access[buffer] != none)
                        to = std::max(to, access[buffer] + 1);
                    content[buffer] = reader.size();
                }
                if (to < i)
                    before_[i] = to;
                last[queue] = reader.size();
                reader.push_back(none);
                place.push_back(to);
            }
            for (const auto* values : {&op.operands, &op.results})
                for (const ValueId v : *values)
                    access[buffers_.index_of(v, item.microbatch)] = i;
        }
    }

    /// Whether two items are exchanges that begin together (Op::together).
    bool are_together(const Item& a, const Item& b) const
    {
        return a.kind == StepKind::op && b.kind == StepKind::op && a.microbatch == b.microbatch &&
               graph_[a.op].together != 0 && graph_[a.op].together == graph_[b.op].together;
    }

    /// Exchanges of boxes. Not over another collective of their axis, nor if that gathers parameters, which
    /// move, too: their order must be that of all ranks, while what ranks compute in between may differ. So
    /// neighbours move together only if they are neighbours on all ranks.
    void find_exchanges()
    {
        std::vector<std::size_t> after(buffers_.count(), 0),
            written(after);                        // the accesses so far, and writes
        std::map<std::size_t, std::size_t> behind; // the last collective of an axis
        for (std::size_t i = 0; i < items_.size(); ++i) {
            const Item& item = items_[i];
            const auto index = [&](ValueId v) { return buffers_.index_of(v, item.microbatch); };
            if (item.kind != StepKind::op) { // a feed writes, a fetch does not, but nothing moves over it
                after[index(item.value)] = written[index(item.value)] = i + 1;
                continue;
            }
            const Op& op = graph_[item.op];
            if (info(op).exchanges) {
                const bool follows = i > 0 && i != decision_ && are_together(items_[i - 1], item);
                std::size_t to =
                    follows ? (before_[i - 1] == none ? i : before_[i - 1])
                            : std::max(behind[axis_[item.op.index()]], i < decision_ ? 0 : decision_);
                for (const ValueId v : op.operands)
                    to = std::max(to, written[index(v)]);
                for (const ValueId v : op.results)
                    to = std::max(to, after[index(v)]);
                if (to < i)
                    before_[i] = to;
            }
            if (info(op).communicates && !op.attrs->tag)
                behind[axis_[item.op.index()]] = i + 1;
            for (const ValueId v : op.operands)
                after[index(v)] = i + 1;
            for (const ValueId v : op.results)
                after[index(v)] = written[index(v)] = i + 1;
        }
    }

    void find_additions()
    {
        const std::vector<bool> reduces = gradient_reductions(graph_);
        std::size_t end = items_.size(); // of the microbatches
        while (end > 0 && !(items_[end - 1].kind == StepKind::op && items_[end - 1].microbatch >= 0))
            --end;
        std::map<std::size_t, std::size_t> next;                 // reduction of an axis
        std::vector<std::size_t> access(buffers_.count(), none); // the first place of a later one
        const auto note = [&](ValueId v, i64 microbatch, std::size_t place) { // exchanges move to the front
            std::size_t& first = access[buffers_.index_of(v, microbatch)];
            first = std::min(first, place);
        };
        for (std::size_t i = items_.size(); i-- > 0;) {
            const Item& item = items_[i];
            if (item.kind != StepKind::op) {
                note(item.value, item.microbatch, i);
                continue;
            }
            const Op& op = graph_[item.op];
            if (const OpId reduction = reduction_added_by(graph_, op)) {
                const auto later = next.find(axis_[reduction.index()]);
                std::size_t place = later == next.end() ? end : later->second;
                for (const ValueId v : op.operands)
                    place = std::min(place, access[buffers_.index_of(v, item.microbatch)]);
                if (place > i)
                    before_[i] = place;
            }
            const std::size_t at = before_[i] == none || reduction_added_by(graph_, op) ? i : before_[i];
            if (reduces[item.op.index()])
                next[axis_[item.op.index()]] = at;
            for (const auto* values : {&op.operands, &op.results})
                for (const ValueId v : *values)
                    note(v, item.microbatch, at);
        }
    }

    const Graph& graph_;
    const BufferSlots& buffers_;
    bool receive_early_;
    const std::vector<Item>& items_;
    std::size_t decision_; ///< nothing moves over it
    std::vector<std::size_t> before_;
    std::vector<std::size_t> axis_;  ///< by op: a number for each axis
    std::vector<std::size_t> early_; ///< by op: a number for each early_queue(); none: it has none
};

} // namespace

BufferSlots::BufferSlots(const Graph& graph, std::vector<ValueId> root, const RankOrder& tasks,
                         i64 microbatches, const PipelineOrder* order)
    : graph_(graph), root_(std::move(root)), row_(graph.values.size(), 0), first_(row_),
      microbatches_(microbatches), trains_(trains(graph))
{
    const std::vector<Uses> uses = uses_of_values(order);
    const bool has_stages =
        std::ranges::any_of(tasks, [&](const Task& task) { return task.stage != tasks.front().stage; });
    // What one stage keeps of a microbatch has a slot that it shares with no other stage at that time, so
    // that the memory packer can let stages that are full at different times use the same bytes.
    std::map<std::set<Phase>, Pool> of_phases;
    std::map<std::tuple<Bytes, Space, bool>, Pool> of_size; // bool: made in the forward pass
    std::map<Users, Pool> others;
    for (std::size_t at = 0; at < uses.size(); ++at) {
        if (root_[at].index() != at)
            continue;
        const Value& value = graph.values[at];
        const Users& users = uses[at].users;
        const bool is_single = users.is_one_stage();
        const bool shares = has_stages && is_single && !uses[at].alone && uses[at].phases.size() > 1;
        Pool& pool =
            shares      ? of_size[{value.type.bytes(), value.space, uses[at].phases.contains(Phase::forward)}]
            : is_single ? of_phases[users.phases]
                        : others[users];
        pool.shares = shares;
        Holder& holder = pool.holders[users];
        if (shares || holder.rows.empty()) {
            holder.rows.push_back(slot_.size());
            slot_.emplace_back(static_cast<std::size_t>(microbatches), 0);
        }
        row_[at] = holder.rows.back();
        holder.values.emplace_back(at);
    }
    for (const auto& [users, pool] : others)
        give_slots(tasks, order, pool);
    for (const auto& [phases, pool] : of_phases)
        give_slots(tasks, order, pool);
    for (const auto& [size, pool] : of_size)
        give_slots(tasks, order, pool);
    take_turns(uses);
}

std::vector<BufferSlots::Uses> BufferSlots::uses_of_values(const PipelineOrder* order) const
{
    const std::set<Phase> all{Phase::forward, Phase::backward, Phase::weights};
    // With whole backward passes these times are short. More buffers leave the memory packer more freedom.
    const bool splits =
        std::ranges::any_of(graph_.ops, [](const Op& op) { return op.phase == Phase::weights; });
    const std::vector<bool> reduces = gradient_reductions(graph_);
    std::vector<Uses> uses(graph_.values.size());
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
        const Op& op = graph_.ops[i];
        if (op.region != Region::microbatch)
            continue;
        for (const auto* values : {&op.operands, &op.results})
            for (const ValueId v : *values) {
                Uses& own = uses[root(v).index()];
                own.users.stages.insert(stage_of(graph_, op));
                own.phases.insert(op.phase);
                const bool moves = op.attrs->tag || op.attrs->space || graph_[v].role == Role::input;
                if (moves || !splits)
                    own.users.phases = all;
                else
                    own.users.phases.insert(op.phase);
                if (op.attrs->reader && order)
                    own.users.readers.insert(*op.attrs->reader);
                own.alone = own.alone || moves || graph_[v].lifetime != Lifetime::microbatch || reduces[i] ||
                            info(op).exchanges || gathers_parameters(graph_, op); // these are placed
            }
    }
    for (const ValueId v : graph_.outputs)
        if (Uses& own = uses[root(v).index()]; !own.phases.empty()) {
            own.users.phases = all;
            own.alone = true;
        }
    return uses;
}

void BufferSlots::take_turns(const std::vector<Uses>& uses)
{
    struct Brought {
        std::size_t at = 0, first = 0, last = 0; ///< root value; ops that access it
    };
    using Size = std::pair<Bytes, Space>;
    std::vector<Brought> all; // by first access
    std::map<std::size_t, std::size_t> known;
    std::map<std::tuple<Size, int, int>, std::size_t> counts; // by size, stage and block
    std::map<Size, std::size_t> rings;                        // the largest of these
    const auto size_of_root = [&](std::size_t at) {
        return Size(graph_.values[at].type.bytes(), graph_.values[at].space);
    };
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
        const Op& op = graph_.ops[i];
        if (op.region != Region::microbatch || op.phase != Phase::weights)
            continue;
        for (const auto* values : {&op.operands, &op.results})
            for (const ValueId v : *values) {
                const std::size_t at = root(v).index();
                const Uses& own = uses[at];
                const OpId producer = graph_.values[at].producer;
                if (own.alone || own.phases != std::set{Phase::weights} || !own.users.is_one_stage() ||
                    !info(graph_[producer]).communicates)
                    continue;
                const auto [place, added] = known.try_emplace(at, all.size());
                if (added) {
                    all.push_back({at, i, i});
                    const Size size = size_of_root(at);
                    std::size_t& ring = rings[size];
                    ring = std::max(ring, ++counts[{size, stage_of(graph_, op), op.block}]);
                }
                all[place->second].last = i;
            }
    }
    struct Turn {
        std::size_t buffer = 0;
        std::map<int, std::size_t> last; ///< by stage: the last access so far
    };
    std::map<std::pair<Size, std::size_t>, Turn> turns; // by size and place in the ring
    std::map<std::pair<Size, int>, std::size_t> taken;  // by size and stage
    for (const Brought& each : all) {
        const Size size = size_of_root(each.at);
        const int stage = stage_of(graph_, graph_[graph_.values[each.at].producer]);
        // At least two: what the next product needs may come while one is computed.
        const std::size_t place = taken[{size, stage}]++ % std::max<std::size_t>(2, rings[size]);
        const auto [turn, added] = turns.try_emplace({size, place}, Turn{first_[each.at], {}});
        const auto before = turn->second.last.find(stage);
        if (before != turn->second.last.end() && before->second >= each.first)
            turn->second = {first_[each.at], {}}; // a later block reads the other, too
        first_[each.at] = turn->second.buffer;
        turn->second.last[stage] = each.last;
    }
}

bool BufferSlots::Users::are_in(const Task& task) const
{
    return stages.contains(static_cast<int>(task.stage)) &&
           std::ranges::any_of(phases_of(task.work), [&](Phase phase) { return phases.contains(phase); });
}

std::vector<std::size_t> BufferSlots::ends_of(const Users& users, const RankOrder& tasks,
                                              const PipelineOrder* order)
{
    std::vector<std::size_t> ends(static_cast<std::size_t>(microbatches_), 0);
    for (std::size_t i = 0; i < tasks.size(); ++i)
        if (users.are_in(tasks[i]))
            ends[static_cast<std::size_t>(tasks[i].microbatch)] = i + 1;
    for (const i64 stage : users.readers) {
        const i64 there = order->shape.rank_of(stage);
        const auto [known, added] = ended_.try_emplace(there);
        if (added)
            known->second = ended_before(*order, order->shape.rank_of(tasks.front().stage), there);
        const std::vector<i64>& ended = known->second;
        const RankOrder& theirs = order->ranks[static_cast<std::size_t>(there)];
        for (std::size_t i = 0; i < theirs.size(); ++i)
            if (theirs[i].stage == stage &&
                (theirs[i].work == Work::backward || theirs[i].work == Work::input_gradient)) {
                std::size_t& end = ends[static_cast<std::size_t>(theirs[i].microbatch)];
                const auto read = std::ranges::upper_bound(ended, static_cast<i64>(i));
                end = std::max(end, static_cast<std::size_t>(read - ended.begin()));
            }
    }
    return ends;
}

void BufferSlots::give_slots(const RankOrder& tasks, const PipelineOrder* order, const Pool& pool)
{
    struct Held {
        const Users* users = nullptr;
        const std::vector<std::size_t>* rows = nullptr;
        std::vector<bool> open; ///< by microbatch: it has slots
        std::vector<bool> used; ///< by slot
    };
    std::vector<Held> all;
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> ending(tasks.size() +
                                                                         1); // of `all`, microbatch
    for (const auto& [users, holder] : pool.holders) {
        if (!trains_ || users.stages.empty())
            continue;
        const std::vector<std::size_t> ends = ends_of(users, tasks, order);
        for (std::size_t m = 0; m < ends.size(); ++m)
            ending[std::min(ends[m], tasks.size())].emplace_back(all.size(), m);
        all.push_back({&users, &holder.rows, std::vector<bool>(ends.size(), false), {}});
    }
    std::vector<std::size_t> free; // ascending
    std::vector<std::size_t> last; // by slot: the microbatch that had it
    const auto has_had = [](const Held& held, std::size_t slot) {
        return slot < held.used.size() && held.used[slot];
    };
    const auto take = [&](const Held& held, std::size_t m) {
        // One that it had before, so that its values have few buffers. Shared ones: the lowest, so that the
        // others are seldom used; but contents of one microbatch would count as one.
        const auto liked = std::ranges::find_if(
            free, [&](std::size_t slot) { return pool.shares ? last[slot] != m : has_had(held, slot); });
        if (free.empty()) {
            last.push_back(m);
            return last.size() - 1;
        }
        const auto taken = liked != free.end() ? liked : free.begin();
        const std::size_t slot = *taken;
        free.erase(taken);
        last[slot] = m;
        return slot;
    };
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        for (const auto& [h, m] : ending[i])
            for (const std::size_t row : *all[h].rows)
                if (all[h].open[m])
                    free.insert(std::ranges::lower_bound(free, slot_[row][m]), slot_[row][m]);
        const auto m = static_cast<std::size_t>(tasks[i].microbatch);
        for (Held& held : all) {
            if (held.open[m] || !held.users->are_in(tasks[i]))
                continue;
            held.open[m] = true;
            for (const std::size_t row : *held.rows) {
                slot_[row][m] = take(held, m);
                if (!pool.shares) {
                    held.used.resize(std::max(held.used.size(), slot_[row][m] + 1));
                    held.used[slot_[row][m]] = true;
                }
            }
        }
    }
    const std::size_t made = std::max<std::size_t>(1, last.size());
    if (!pool.shares)
        slots_ = std::max(slots_, made);
    const std::size_t first = count_;
    for (const auto& [users, holder] : pool.holders)
        for (const ValueId v : holder.values)
            first_[v.index()] = pool.shares ? first : std::exchange(count_, count_ + made);
    if (pool.shares)
        count_ += made;
}

void place_communication(const Graph& graph, const BufferSlots& buffers, bool receive_early,
                         Unrolled& unrolled)
{
    const std::vector<std::size_t> before = Placer(graph, buffers, receive_early, unrolled).run();
    std::vector<std::pair<std::size_t, std::size_t>> moved; // to before which item, item
    for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != none)
            moved.emplace_back(before[i], i);
    std::ranges::sort(moved);
    std::vector<Item> items;
    items.reserve(before.size());
    auto next = moved.begin();
    for (std::size_t i = 0; i <= before.size(); ++i) {
        for (; next != moved.end() && next->first == i; ++next)
            items.push_back(unrolled.items[next->second]);
        if (i < before.size() && before[i] == none)
            items.push_back(unrolled.items[i]);
    }
    unrolled.items = std::move(items); // nothing moves over the decision
}

} // namespace trivium
