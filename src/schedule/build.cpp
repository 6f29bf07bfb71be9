// Graph -> Steps: regions are unrolled over microbatches, values become buffers.
#include "base/check.hpp"
#include "schedule/order.hpp"
#include "schedule/schedule.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

namespace {

/// For each value the value whose buffer it lives in: through what must alias, and, where an operand dies at an op
/// that may work in place, through that.
std::vector<ValueId> find_roots(const Graph& graph)
{
    std::vector<std::size_t> last_use(graph.values.size(), 0);
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        for (const ValueId v : graph.ops[i].operands)
            last_use[v.index()] = i;
    std::vector<bool> kept(graph.values.size(), false);
    for (const ValueId v : graph.outputs)
        kept[v.index()] = true;
    std::vector<ValueId> root(graph.values.size());
    for (std::size_t i = 0; i < root.size(); ++i)
        root[i] = ValueId(i);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        std::vector<bool> taken(op.operands.size(), false);
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            const ValueId result = op.results[r];
            if (const ValueId into = aliased_operand(op, r)) {
                root[result.index()] = root[into.index()];
                continue;
            }
            for (const Alias& alias : info(op).aliases) {
                const auto at = static_cast<std::size_t>(alias.operand);
                if (static_cast<std::size_t>(alias.result) != r || taken[at])
                    continue;
                const ValueId v = op.operands[at];
                const bool dies = graph[v].role == Role::computed && graph[v].lifetime == graph[result].lifetime &&
                                  last_use[v.index()] == i && !kept[v.index()];
                if (dies && graph[v].type == graph[result].type && root[result.index()] == result) {
                    root[result.index()] = root[v.index()];
                    for (std::size_t same = 0; same < taken.size(); ++same) // the op may read one value twice
                        taken[same] = taken[same] || op.operands[same] == v;
                }
            }
        }
    }
    return root;
}

/// A state that the epilogue updates is the optimizer's; one that every microbatch writes is a cache.
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

class ScheduleBuilder {
public:
    ScheduleBuilder(const Graph& graph, const ScheduleConfig& config) : graph_(graph), config_(config), root_(find_roots(graph))
    {
        schedule_.queues = {"compute", "host_to_device", "device_to_host"};
        schedule_.microbatches = config.microbatches;
        const std::vector<Task> tasks = pipeline_order(config.kind, config.stage, config.stages, config.microbatches);
        const bool trains = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.phase == Phase::backward; });
        schedule_.slots = trains ? in_flight(tasks) : 1;
        // After a round of slots every microbatch looks like the one before; the last ones overlap with less than those.
        schedule_.representative = 2 * schedule_.slots + 2;
        for (const Op& op : graph.ops) {
            const ScratchKind kind = info(op).scratch;
            Bytes& bytes = scratch_bytes_[static_cast<std::size_t>(kind)];
            bytes = std::max({bytes, config.scratch.of(kind), least_scratch_of(graph, op)});
        }
        buffer_of_.resize(graph.values.size());
        writer_.resize(graph.values.size() * static_cast<std::size_t>(schedule_.slots));
        run(tasks, trains);
    }

    Schedule result() { return std::move(schedule_); }

private:
    void run(const std::vector<Task>& tasks, bool trains)
    {
        for (const ValueId v : graph_.with_role(Role::hyper))
            feed(v, -1);
        ops_of(Region::prologue, Phase::forward, -1);
        for (const Task& task : tasks) {
            if (task.phase == Phase::forward) {
                for (const ValueId v : graph_.with_role(Role::input))
                    feed(v, task.microbatch);
                ops_of(Region::microbatch, Phase::forward, task.microbatch);
            } else if (trains) {
                ops_of(Region::microbatch, Phase::backward, task.microbatch);
            }
        }
        // What the host decides by is fetched before the first change of a run-lifetime value.
        const std::size_t first_epilogue = region_begin(Region::epilogue);
        std::size_t update = first_epilogue;
        while (update < graph_.ops.size() && !changes_run_values(graph_.ops[update]))
            ++update;
        for (std::size_t i = first_epilogue; i < update; ++i)
            op(OpId(i), -1);
        for (const ValueId v : graph_.outputs)
            fetch(v);
        schedule_.decision = schedule_.steps.size();
        for (std::size_t i = update; i < graph_.ops.size(); ++i)
            op(OpId(i), -1);
    }

    std::size_t region_begin(Region region) const
    {
        return static_cast<std::size_t>(
            std::find_if(graph_.ops.begin(), graph_.ops.end(), [&](const Op& op) { return op.region >= region; }) -
            graph_.ops.begin());
    }

    bool changes_run_values(const Op& op) const
    {
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r); into && graph_[into].lifetime == Lifetime::run)
                return true;
        return false;
    }

    void ops_of(Region region, Phase phase, i64 microbatch)
    {
        for (std::size_t i = 0; i < graph_.ops.size(); ++i)
            if (graph_.ops[i].region == region && (region == Region::prologue || graph_.ops[i].phase == phase))
                op(OpId(i), microbatch);
    }

    std::size_t slot_of(ValueId v, i64 microbatch) const
    {
        return graph_[v].lifetime == Lifetime::microbatch ? static_cast<std::size_t>(microbatch % schedule_.slots) : 0;
    }

    BufferId buffer(ValueId v, i64 microbatch)
    {
        const ValueId root = root_[v.index()];
        const std::size_t slot = slot_of(v, microbatch);
        std::vector<BufferId>& slots = buffer_of_[root.index()];
        slots.resize(std::max(slots.size(), slot + 1));
        if (!slots[slot]) {
            const Value& value = graph_[root];
            Buffer made;
            made.name = slot == 0 ? value.name : str(value.name, "#", slot);
            made.bytes = value.type.bytes();
            made.lifetime = value.lifetime;
            made.kind = kind_of(graph_, root);
            slots[slot] = BufferId(schedule_.buffers.size());
            schedule_.buffers.push_back(std::move(made));
        }
        return slots[slot];
    }

    /// One buffer serves every Step of a kind: each holds it only while it runs.
    BufferId scratch(ScratchKind kind)
    {
        static constexpr const char* names[] = {"", "scratch.product", "scratch.attention", "scratch.reduction"};
        const auto index = static_cast<std::size_t>(kind);
        const Bytes bytes = scratch_bytes_[index];
        if (bytes > 0 && !scratch_[index]) {
            scratch_[index] = BufferId(schedule_.buffers.size());
            schedule_.buffers.push_back({names[index], bytes, -1, Lifetime::microbatch, MemoryKind::scratch});
        }
        return scratch_[index];
    }

    StepId& writer(ValueId v, i64 microbatch)
    {
        return writer_[root_[v.index()].index() * static_cast<std::size_t>(schedule_.slots) + slot_of(v, microbatch)];
    }

    /// Waits for `other` unless the queue's own order does that already.
    void wait_for(Step& step, StepId other) const
    {
        if (other && schedule_.steps[other.index()].queue != step.queue &&
            std::find(step.waits.begin(), step.waits.end(), other) == step.waits.end())
            step.waits.push_back(other);
    }

    void push(Step step)
    {
        last_on_queue_[step.queue] = StepId(schedule_.steps.size());
        schedule_.steps.push_back(std::move(step));
    }

    void feed(ValueId v, i64 microbatch)
    {
        Step step;
        step.kind = StepKind::feed;
        step.value = v;
        step.microbatch = microbatch;
        step.queue = queue_host_to_device;
        step.results = {buffer(v, microbatch)};
        wait_for(step, last_on_queue_[queue_compute]); // the slot's former content has been read
        push(std::move(step));
        writer(v, microbatch) = last_on_queue_[queue_host_to_device];
    }

    void fetch(ValueId v)
    {
        Step step;
        step.kind = StepKind::fetch;
        step.value = v;
        if (graph_[v].lifetime == Lifetime::microbatch) // of the last one: the same content that its op wrote
            step.microbatch = config_.microbatches - 1;
        step.queue = queue_device_to_host;
        step.operands = {buffer(v, step.microbatch)};
        wait_for(step, writer(v, step.microbatch));
        push(std::move(step));
    }

    void op(OpId id, i64 microbatch)
    {
        const Op& op = graph_[id];
        Step step;
        step.op = id;
        step.microbatch = microbatch;
        for (const ValueId v : op.operands) {
            step.operands.push_back(buffer(v, microbatch));
            wait_for(step, writer(v, microbatch));
        }
        // The first op that touches an accumulator is the first to add into it.
        if (op.accumulate)
            step.overwrite = graph_[op.operands.back()].role == Role::carry && !writer(op.operands.back(), microbatch);
        for (const ValueId v : op.results)
            step.results.push_back(buffer(v, microbatch));
        step.scratch = scratch(info(op).scratch);
        push(std::move(step));
        for (const ValueId v : op.results)
            writer(v, microbatch) = last_on_queue_[queue_compute];
    }

    const Graph& graph_;
    const ScheduleConfig& config_;
    std::vector<ValueId> root_;
    Schedule schedule_;
    std::vector<std::vector<BufferId>> buffer_of_; ///< by root value, then slot
    std::vector<StepId> writer_;                   ///< by root value and slot: the Step that wrote last
    StepId last_on_queue_[3];
    BufferId scratch_[4];
    Bytes scratch_bytes_[4] = {};
};

} // namespace

Schedule build_schedule(const Graph& graph, const ScheduleConfig& config)
{
    TRV_CHECK(config.microbatches > 0 && config.stage < config.stages, "no microbatches or no such stage");
    return ScheduleBuilder(graph, config).result();
}

} // namespace trivium
