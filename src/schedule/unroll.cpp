#include "schedule/unroll.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace trivium {

namespace {

class Unroller {
public:
    Unroller(const Graph& graph, const RankOrder& tasks, i64 head)
        : graph_(graph), tasks_(tasks),
          head_(decides_early(graph) ? static_cast<std::size_t>(head) : tasks.size()),
          inputs_(graph.with_role(Role::input)), reads_(graph.values.size())
    {
        for (std::size_t i = 0; i < graph.ops.size(); ++i)
            if (graph.ops[i].region == Region::microbatch)
                ops_[{graph.ops[i].phase, stage_of(graph, graph.ops[i])}].push_back(OpId(i));
        for (const Op& op : graph.ops)
            for (const ValueId v : op.operands)
                reads_[v.index()].insert(stage_of(graph, op));
        for (std::size_t t = 0; t < tasks.size(); ++t)
            for (const Phase phase : phases_of(tasks[t].work))
                last_[{phase, static_cast<int>(tasks[t].stage)}] = t;
    }

    Unrolled run()
    {
        for (const ValueId v : graph_.with_role(Role::hyper))
            feed(v, -1);
        const std::vector<bool> late = for_decision();
        for (std::size_t i = 0; i < late.size(); ++i)
            if (!late[i] && !waits_for_gather(graph_.ops[i]))
                made_.items.push_back({StepKind::op, OpId(i), {}, -1});
        find_early();
        for (std::size_t t = 0; t < head_; ++t)
            run(t);
        if (decides_early(graph_)) {
            for (std::size_t i = 0; i < late.size(); ++i)
                if (late[i])
                    made_.items.push_back({StepKind::op, OpId(i), {}, -1});
            decide();
        }
        for (std::size_t t = head_; t < tasks_.size(); ++t)
            run(t);
        // The values on which the host bases its decision are fetched before a run-lifetime value changes.
        const std::size_t first_epilogue = region_begin(Region::epilogue);
        std::size_t update = first_epilogue;
        while (update < graph_.ops.size() && !changes_run_values(graph_.ops[update]))
            ++update;
        for (std::size_t i = first_epilogue; i < update; ++i)
            op_in_turn(OpId(i));
        if (!decides_early(graph_))
            decide();
        for (std::size_t i = update; i < graph_.ops.size(); ++i)
            op_in_turn(OpId(i));
        return std::move(made_);
    }

private:
    void decide()
    {
        for (const ValueId v : graph_.outputs)
            fetch(v);
        made_.decision = made_.items.size();
    }

    /// By op of the prologue: whether it computes for the decision alone what is not known at once.
    std::vector<bool> for_decision() const
    {
        std::vector<bool> outputs(graph_.values.size(), false), others(outputs);
        for (const ValueId v : graph_.outputs)
            outputs[v.index()] = true;
        std::vector<bool> late(region_begin(Region::microbatch), false);
        for (std::size_t i = graph_.ops.size(); i-- > 0;) {
            const Op& op = graph_.ops[i];
            const auto in = [&](const std::vector<bool>& set) {
                return std::ranges::any_of(op.results, [&](ValueId v) { return set[v.index()]; });
            };
            const bool decides = i < late.size() && in(outputs) && !in(others);
            if (decides)
                late[i] = !info(op).communicates;
            for (const ValueId v : op.operands)
                (decides ? outputs : others)[v.index()] = true;
        }
        return late;
    }

    /// Collectives and copies of the epilogue that wait only for the backward pass begin as soon as the last
    /// task has computed their operands, concurrently with the rest of that pass.
    void find_early()
    {
        missing_.resize(graph_.ops.size(), 0);
        early_.resize(graph_.ops.size());
        done_.resize(graph_.ops.size(), false);
        for (std::size_t i = region_begin(Region::epilogue); i < graph_.ops.size(); ++i) {
            const Op& op = graph_.ops[i];
            std::set<OpId> producers;
            bool early = (info(op).communicates || op.attrs->space) && !op.operands.empty();
            for (const ValueId v : op.operands) {
                const OpId producer = graph_[v].producer;
                early =
                    early && producer &&
                    (graph_[producer].region == Region::microbatch ? graph_[producer].phase != Phase::forward
                                                                   : missing_[producer.index()] > 0);
                producers.insert(producer);
            }
            if (!early)
                continue;
            missing_[i] = producers.size();
            for (const OpId producer : producers)
                early_[producer.index()].push_back(OpId(i));
        }
    }

    /// Runs the early ops whose last operand this op has computed for the last time.
    void has_ended(OpId id)
    {
        for (const OpId early : early_[id.index()])
            if (--missing_[early.index()] == 0) {
                op_once(early);
                has_ended(early);
            }
    }

    void run(std::size_t t)
    {
        const Task& task = tasks_[t];
        const auto stage = static_cast<int>(task.stage);
        for (const ValueId v : inputs_)
            if (reads_[v.index()].contains(stage) && fed_.insert({task.microbatch, v}).second)
                feed(v, task.microbatch);
        for (const Phase phase : phases_of(task.work)) {
            const auto ops = ops_.find({phase, stage});
            if (ops == ops_.end())
                continue;
            const bool is_last = last_.at({phase, stage}) == t;
            for (const OpId id : ops->second) {
                for (const ValueId v : graph_[id].operands)
                    if (const OpId producer = graph_[v].producer;
                        producer && waits_for_gather(graph_[producer]))
                        op_once(producer);
                made_.items.push_back({StepKind::op, id, {}, task.microbatch});
                if (is_last)
                    has_ended(id);
            }
        }
    }

    /// An op that packs gathered weights goes to just before its first reader. In the prologue, the first op
    /// of the first microbatch would wait for the last gather.
    bool waits_for_gather(const Op& op) const
    {
        return op.kind == OpKind::pack_columns && !decides_early(graph_) &&
               std::ranges::any_of(op.operands, [&](ValueId v) {
                   const OpId producer = graph_[v].producer;
                   return producer && info(graph_[producer]).communicates;
               });
    }

    /// Receives stand before their first reader: a rank that waits for each transfer must have sent what its
    /// peer needs.
    void op_in_turn(OpId id)
    {
        const auto receives = [&](OpId op) {
            return info(graph_[op]).communicates && graph_[op].operands.empty();
        };
        if (receives(id))
            return;
        for (const ValueId v : graph_[id].operands)
            if (const OpId producer = graph_[v].producer;
                producer && graph_[producer].region == Region::epilogue && receives(producer))
                op_once(producer);
        op_once(id);
    }

    void op_once(OpId id)
    {
        if (!done_[id.index()])
            made_.items.push_back({StepKind::op, id, {}, -1});
        done_[id.index()] = true;
    }

    void feed(ValueId v, i64 microbatch) { made_.items.push_back({StepKind::feed, {}, v, microbatch}); }

    void fetch(ValueId v)
    {
        if (const OpId producer = graph_[v].producer; producer && graph_[producer].region == Region::epilogue)
            op_once(producer);
        const bool of_last = graph_[v].lifetime == Lifetime::microbatch;
        made_.items.push_back({StepKind::fetch, {}, v, of_last ? tasks_.back().microbatch : -1});
    }

    std::size_t region_begin(Region region) const
    {
        return static_cast<std::size_t>(
            std::ranges::find_if(graph_.ops, [&](const Op& op) { return op.region >= region; }) -
            graph_.ops.begin());
    }

    bool changes_run_values(const Op& op) const
    {
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r); into && graph_[into].lifetime == Lifetime::run)
                return true;
        return false;
    }

    const Graph& graph_;
    const RankOrder& tasks_;
    std::size_t head_; ///< tasks before the decision, if that is before the update
    std::map<std::pair<Phase, int>, std::vector<OpId>> ops_; ///< of a microbatch, by phase and stage
    std::map<std::pair<Phase, int>, std::size_t> last_;      ///< the last task that runs them
    std::vector<ValueId> inputs_;
    std::vector<std::set<int>> reads_;      ///< by value: the stages that read it
    std::set<std::pair<i64, ValueId>> fed_; ///< by microbatch
    Unrolled made_;
    std::vector<std::vector<OpId>> early_; ///< by op: early ops that read its results
    std::vector<std::size_t> missing_;     ///< by early op: producers of operands that have not ended
    std::vector<bool> done_;               ///< ops of the step region that already have an item
};

} // namespace

std::span<const Phase> phases_of(Work work)
{
    static constexpr Phase all[] = {Phase::forward, Phase::backward, Phase::weights};
    switch (work) {
    case Work::forward: return {all, 1};
    case Work::input_gradient: return {all + 1, 1};
    case Work::weight_gradient: return {all + 2, 1};
    case Work::backward: break;
    }
    return {all + 1, 2};
}

RankOrder plain_order(const Graph& graph, i64 microbatches)
{
    std::set<int> stages;
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch)
            stages.insert(stage_of(graph, op));
    const auto is_of_microbatch = [&](ValueId v) { return graph[v].lifetime == Lifetime::microbatch; };
    if (stages.empty() && std::ranges::any_of(graph.outputs, is_of_microbatch))
        stages.insert(0); // an input is an output, and no op runs
    RankOrder tasks;
    for (i64 m = 0; m < microbatches; ++m) {
        for (auto stage = stages.begin(); stage != stages.end(); ++stage)
            tasks.push_back({Work::forward, *stage, m});
        for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
            tasks.push_back({Work::backward, *stage, m});
    }
    return tasks;
}

bool decides_early(const Graph& graph)
{
    return std::ranges::any_of(graph.outputs, [&](ValueId v) {
        return graph[v].producer && graph[graph[v].producer].region == Region::prologue;
    });
}

Unrolled unroll(const Graph& graph, const RankOrder& tasks, i64 head)
{
    return Unroller(graph, tasks, head).run();
}

bool trains(const Graph& graph)
{
    return std::ranges::any_of(graph.ops, [](const Op& op) {
        return op.region == Region::microbatch && op.phase != Phase::forward;
    });
}

} // namespace trivium
