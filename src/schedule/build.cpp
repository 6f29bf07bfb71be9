// Graph -> Steps: regions are unrolled over microbatches, values become buffers.
#include "base/check.hpp"
#include "ir/collectives.hpp"
#include "schedule/place.hpp"
#include "schedule/roots.hpp"
#include "schedule/schedule.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

/// A state that the epilogue updates belongs to the optimizer; one that every microbatch writes is a cache.
MemoryKind state_kind(const Graph& graph, ValueId id)
{
    for (const Carry& carry : graph.carries)
        if (carry.in == id && graph[graph[carry.out].producer].region == Region::epilogue)
            return MemoryKind::optimizer;
    return MemoryKind::cache;
}

MemoryKind kind_of(const Graph& graph, ValueId id)
{
    const Value& v = graph[id];
    switch (v.role) {
    case Role::parameter: return MemoryKind::parameters;
    case Role::state: return state_kind(graph, id);
    case Role::constant: return MemoryKind::constants;
    case Role::kept: return MemoryKind::validation;
    case Role::carry: return MemoryKind::gradients;
    case Role::input:
    case Role::hyper: return MemoryKind::inputs;
    case Role::computed: break;
    }
    const Op& op = graph[v.producer];
    if (op.region == Region::prologue)
        return MemoryKind::compute_copies;
    if (op.region == Region::epilogue)
        return MemoryKind::update;
    return op.phase == Phase::forward ? MemoryKind::activations : MemoryKind::backward;
}

/// A value that is copied to the other space in the epilogue (a gradient), otherwise the value itself.
ValueId copied_by(const Graph& graph, ValueId id)
{
    const OpId producer = graph[id].producer;
    return producer && graph[producer].attrs->space && graph[producer].region == Region::epilogue
               ? graph[producer].operands[0]
               : id;
}

class ScheduleBuilder {
public:
    ScheduleBuilder(const Graph& graph, const ScheduleConfig& config)
        : graph_(graph), config_(config),
          tasks_(config.tasks.empty() ? plain_order(graph, config.microbatches) : config.tasks),
          roots_(find_roots(graph)), slots_(graph, roots_.of, tasks_, config.microbatches, config.order)
    {
        schedule_.queues = {"compute", "host_to_device", "device_to_host"};
        for (const Op& op : graph.ops) {
            std::string name = queue_name(op);
            const auto known = std::ranges::find(schedule_.queues, name);
            queue_of_.push_back(static_cast<int>(known - schedule_.queues.begin()));
            if (known == schedule_.queues.end())
                schedule_.queues.push_back(std::move(name));
        }
        check_size();
        last_on_queue_.resize(schedule_.queues.size());
        schedule_.decides_early = decides_early(graph);
        schedule_.microbatches = config.microbatches;
        schedule_.slots = slots_.slots();
        // After one round of slots every microbatch has the same overlaps as the one before; the last
        // microbatches overlap with fewer.
        if (is_regular())
            schedule_.representative = 2 * schedule_.slots + 2;
        for (std::size_t i = 0; i < graph.ops.size(); ++i) {
            const Op& op = graph.ops[i];
            const ScratchKind kind = info(op).scratch;
            scratch_of_.push_back(&*scratch_.try_emplace(shares_scratch(OpId(i))).first);
            Bytes& bytes = scratch_of_.back()->second.bytes;
            bytes = std::max(bytes, kind == ScratchKind::exchange
                                        ? exchange_scratch(op)
                                        : std::max(config.scratch.of(kind), least_scratch_of(graph, op)));
        }
        buffer_of_.resize(slots_.count());
        uses_.resize(slots_.count());
        written_.resize(graph.values.size() * static_cast<std::size_t>(config.microbatches), false);
        Unrolled unrolled = unroll(graph, tasks_, config.head);
        if (config.place)
            place_communication(graph, slots_, config.receive_early, unrolled);
        schedule_.steps.reserve(unrolled.items.size());
        run(unrolled);
        schedule_.columns = std::move(roots_.columns);
    }

    Schedule result() { return std::move(schedule_); }

private:
    /// Whether the tasks are those of one stage with whole backward passes, first in first out.
    bool is_regular() const
    {
        i64 next[2] = {0, 0};
        return std::all_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
            return task.stage == tasks_.front().stage &&
                   (task.work == Work::forward || task.work == Work::backward) &&
                   task.microbatch == next[task.work == Work::backward]++;
        });
    }

    /// The memory of all later stages of planning grows with the number of Steps and queues.
    void check_size() const
    {
        constexpr i64 most_clocks = i64{1} << 27;
        const auto ops = static_cast<i64>(graph_.ops.size()),
                   queues = static_cast<i64>(schedule_.queues.size());
        require_few_steps(config_.microbatches, ops);
        if (queues > most_clocks / std::max<i64>(ops * config_.microbatches, 1))
            throw UserError({source_place(graph_, 0) + "graph '" + graph_.name + "'",
                             str("has ", ops, " ops on ", queues, " queues"),
                             "each axis, and each tag of messages to a peer, has a queue",
                             "use fewer axes or tags"});
    }

    void run(const Unrolled& unrolled)
    {
        for (std::size_t i = 0; i < unrolled.items.size(); ++i) {
            if (i == unrolled.decision)
                schedule_.decision = schedule_.steps.size();
            const Item& item = unrolled.items[i];
            switch (item.kind) {
            case StepKind::op: op(item.op, item.microbatch); break;
            case StepKind::feed: feed(item.value, item.microbatch); break;
            case StepKind::fetch: fetch(item.value, item.microbatch); break;
            }
        }
        if (unrolled.decision == unrolled.items.size())
            schedule_.decision = schedule_.steps.size();
    }

    /// Collectives of one axis run one after another, and so do the messages of each tag to or from a peer.
    /// Otherwise two ranks could wait for each other.
    std::string queue_name(const Op& op) const
    {
        const Attributes& a = op.attrs;
        const auto of_host = [](HostQueue queue) { return std::string(name_of(queue)); };
        if (a.space)
            return of_host(*a.space == Space::host ? HostQueue::to_host : HostQueue::to_device);
        if (result_space(graph_, op) == Space::host)
            return of_host(HostQueue::host);
        if (!info(op).communicates)
            return schedule_.queues[queue_compute];
        if (!a.tag)
            return *a.axis;
        return str(*a.axis, a.to ? " to " : " from ", a.to ? *a.to : *a.from, " #", *a.tag);
    }

    /// The scratch with which a collective takes one round, limited by the machine file, but never less than
    /// a small window for each peer and direction.
    Bytes exchange_scratch(const Op& op) const
    {
        if (!info(op).bucket)
            return least_scratch_of(graph_, op);
        Bytes in = 0, out = 0;
        for (const ValueId v : op.operands)
            in += graph_[v].type.bytes();
        for (const ValueId v : op.results)
            out += graph_[v].type.bytes();
        const i64 ranks = graph_.mesh.ranks_along(*op.attrs->axis);
        const Bytes window = std::min<Bytes>(4096, round_up(std::max(in, out), 64) + 64);
        const Bytes least = 2 * ranks * window;
        return std::max(least,
                        std::min(2 * std::max(in, out) + least, config_.scratch.of(ScratchKind::exchange)));
    }

    BufferId buffer(ValueId v, i64 microbatch)
    {
        BufferId& known = buffer_of_[slots_.index_of(v, microbatch)];
        if (!known) {
            const ValueId root = slots_.root(v);
            const std::size_t slot = slots_.slot_of(v, microbatch);
            const Value& value = graph_[root];
            Buffer made;
            made.name = slot == 0 ? value.name : str(value.name, "#", slot);
            made.bytes = value.type.bytes();
            if (made.bytes > max_buffers - bytes_)
                throw UserError({source_place(graph_, value.line) + "%" + value.name,
                                 "the buffers up to it have more than 2^60 bytes",
                                 str("there are ", schedule_.slots, " microbatches in flight"),
                                 "use a smaller model or batch, or shard it over more ranks"});
            bytes_ += made.bytes;
            made.lifetime = value.lifetime;
            made.kind = kind_of(graph_, slots_.root(copied_by(graph_, root)));
            made.space = value.space;
            known = BufferId(schedule_.buffers.size());
            schedule_.buffers.push_back(std::move(made));
        }
        return known;
    }

    /// The Steps that share a scratch buffer, which each uses only while it runs: those of one kind, space
    /// and part of the step (what is alive differs between parts), or the collectives of one queue. What
    /// collectives get must be the same on all ranks of a group, unlike what exchanges of boxes need.
    struct ScratchOf {
        int part = 0;
        ScratchKind kind{};
        Space space{};
        int queue = 0;
        bool exchanges = false;
        auto operator<=>(const ScratchOf&) const = default;
    };
    struct Scratch {
        Bytes bytes = 0;
        BufferId buffer; ///< invalid until a Step uses it
    };

    ScratchOf shares_scratch(OpId id) const
    {
        const Op& op = graph_[id];
        const ScratchKind kind = info(op).scratch;
        const int part = op.region == Region::prologue   ? 0
                         : op.region == Region::epilogue ? 3
                         : op.phase == Phase::forward    ? 1
                                                         : 2;
        if (kind == ScratchKind::exchange)
            return {part, kind, Space::device, queue_of_[id.index()], info(op).exchanges};
        return {part, kind, result_space(graph_, op), queue_compute};
    }

    BufferId scratch(OpId id)
    {
        static constexpr const char* names[] = {"", "product", "attention", "reduction"};
        auto& [of, own] = *scratch_of_[id.index()];
        if (own.bytes > 0 && !own.buffer) {
            own.buffer = BufferId(schedule_.buffers.size());
            const std::string name = of.kind == ScratchKind::exchange
                                         ? schedule_.queues[static_cast<std::size_t>(of.queue)]
                                         : names[static_cast<int>(of.kind)];
            schedule_.buffers.push_back(
                {"scratch." + name, own.bytes, -1, Lifetime::microbatch, MemoryKind::scratch, of.space});
        }
        return own.buffer;
    }

    /// The last accesses of a buffer: a Step that reads it waits for the writer; a Step that writes it waits
    /// for all of them.
    struct Uses {
        StepId writer;
        ShortList<StepId, 4> readers{}; ///< since that write, the last one on each queue
        ValueId content = {};           ///< the root value that was written
        i64 microbatch = -1;            ///< of that
    };
    /// Nothing else has been written into the buffer of what a Step reads: values may share buffers.
    void check_content(ValueId v, i64 microbatch)
    {
        const Uses& of = uses(v, microbatch);
        if (graph_[v].lifetime == Lifetime::microbatch && written_[written_at(v, microbatch)])
            TRV_CHECK(of.content == slots_.root(v) && of.microbatch == microbatch, "%", graph_[v].name,
                      " of microbatch ", microbatch, " was overwritten by %", graph_[of.content].name,
                      " of microbatch ", of.microbatch);
    }
    void has_written(ValueId v, i64 microbatch, StepId id)
    {
        Uses& of = uses(v, microbatch);
        of.writer = id;
        of.readers.clear();
        of.content = slots_.root(v);
        of.microbatch = microbatch;
        if (graph_[v].lifetime == Lifetime::microbatch)
            written_[written_at(v, microbatch)] = true;
    }
    std::size_t written_at(ValueId v, i64 microbatch) const
    {
        return slots_.root(v).index() * static_cast<std::size_t>(config_.microbatches) +
               static_cast<std::size_t>(microbatch);
    }
    Uses& uses(ValueId v, i64 microbatch) { return uses_[slots_.index_of(v, microbatch)]; }

    /// Adds a wait for `other` unless the order of the queue implies it.
    void wait_for(Step& step, StepId other) const
    {
        if (other && schedule_.steps[other.index()].queue != step.queue &&
            std::find(step.waits.begin(), step.waits.end(), other) == step.waits.end())
            step.waits.push_back(other);
    }

    void wait_to_write(Step& step, ValueId v, i64 microbatch)
    {
        wait_for(step, uses(v, microbatch).writer);
        for (const StepId reader : uses(v, microbatch).readers)
            wait_for(step, reader);
    }

    StepId push(Step step)
    {
        const StepId id(schedule_.steps.size());
        last_on_queue_[static_cast<std::size_t>(step.queue)] = id;
        schedule_.steps.push_back(std::move(step));
        return id;
    }

    void has_read(ValueId v, i64 microbatch, StepId id)
    {
        auto& readers = uses(v, microbatch).readers;
        const int queue = schedule_.steps[id.index()].queue;
        const auto same = std::ranges::find_if(
            readers, [&](StepId other) { return schedule_.steps[other.index()].queue == queue; });
        if (same == readers.end()) {
            readers.push_back(id);
            return;
        }
        std::rotate(same, same + 1, readers.end());
        readers.back() = id;
    }

    void feed(ValueId v, i64 microbatch)
    {
        Step step;
        step.kind = StepKind::feed;
        step.value = v;
        step.microbatch = microbatch;
        step.queue = queue_host_to_device;
        step.results = {buffer(v, microbatch)};
        wait_for(step, last_on_queue_[queue_compute]); // another buffer may have used the same bytes before
        wait_to_write(step, v, microbatch);
        has_written(v, microbatch, push(std::move(step)));
    }

    void fetch(ValueId v, i64 microbatch)
    {
        Step step;
        step.kind = StepKind::fetch;
        step.value = v;
        step.microbatch = microbatch;
        step.queue = queue_device_to_host;
        step.operands = {buffer(v, microbatch)};
        wait_for(step, uses(v, microbatch).writer);
        has_read(v, microbatch, push(std::move(step)));
    }

    void op(OpId id, i64 microbatch)
    {
        const Op& op = graph_[id];
        if (info(op).view)
            return; // its parts are in the buffer of the whole
        Step step;
        step.op = id;
        step.microbatch = microbatch;
        step.queue = queue_of_[id.index()];
        step.operands.reserve(op.operands.size());
        step.results.reserve(op.results.size());
        for (const ValueId v : op.operands) {
            step.operands.push_back(buffer(v, microbatch));
            check_content(v, microbatch);
            wait_for(step, uses(v, microbatch).writer);
        }
        // The first op that accesses an accumulator is the first to add into it.
        if (op.accumulate)
            step.overwrite = graph_[op.operands.back()].role == Role::carry &&
                             !uses(op.operands.back(), microbatch).writer;
        if (op.operands.empty() || gathers_parameters(graph_, op)) // as in feed()
            wait_for(step, last_on_queue_[queue_compute]);
        for (const ValueId v : op.results) {
            step.results.push_back(buffer(v, microbatch));
            wait_to_write(step, v, microbatch);
        }
        step.scratch = scratch(id);
        const StepId made = push(std::move(step));
        for (const ValueId v : op.operands)
            has_read(v, microbatch, made);
        for (const ValueId v : op.results)
            has_written(v, microbatch, made);
    }

    const Graph& graph_;
    const ScheduleConfig& config_;
    RankOrder tasks_;
    Roots roots_;
    BufferSlots slots_;
    Schedule schedule_;
    std::vector<BufferId> buffer_of_; ///< by BufferSlots::index_of(); invalid: not yet made
    std::vector<Uses> uses_;          ///< by index_of(), too
    std::vector<bool> written_;       ///< by root value and microbatch
    std::vector<StepId> last_on_queue_;
    static constexpr Bytes max_buffers = Bytes{1} << 60;
    Bytes bytes_ = 0;           ///< of the buffers so far, without scratch
    std::vector<int> queue_of_; ///< by op
    std::map<ScratchOf, Scratch> scratch_;
    std::vector<std::map<ScratchOf, Scratch>::value_type*> scratch_of_; ///< by op: in scratch_
};

} // namespace

void require_few_steps(i64 microbatches, i64 ops)
{
    constexpr i64 most = i64{1} << 22;
    if (microbatches > most / std::max<i64>(ops, 1))
        throw UserError(
            {"train.micro_batch",
             str("makes ", microbatches, " microbatches of at least ", ops, " ops, more than 2^22 Steps"),
             "every Step of an optimizer step is planned",
             "raise train.micro_batch, lower train.global_batch, or use more data ranks"});
}

Schedule build_schedule(const Graph& graph, const ScheduleConfig& config)
{
    TRV_CHECK(config.microbatches > 0, "no microbatches");
    return ScheduleBuilder(graph, config).result();
}

} // namespace trivium
