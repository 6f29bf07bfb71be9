#include "schedule/unroll.hpp"

#include <algorithm>

namespace trivium {

namespace {

class Unroller {
public:
    Unroller(const Graph& graph, i64 microbatches) : graph_(graph), last_(microbatches - 1) {}

    Unrolled run(const std::vector<Task>& tasks)
    {
        for (const ValueId v : graph_.with_role(Role::hyper))
            feed(v, -1);
        ops_of(Region::prologue, Phase::forward, -1);
        find_early();
        const bool backward = trains(graph_);
        for (const Task& task : tasks) {
            if (task.phase == Phase::forward) {
                for (const ValueId v : graph_.with_role(Role::input))
                    feed(v, task.microbatch);
                ops_of(Region::microbatch, Phase::forward, task.microbatch);
            } else if (backward) {
                ops_of(Region::microbatch, Phase::backward, task.microbatch);
            }
        }
        // The values on which the host bases its decision are fetched before a run-lifetime value changes.
        const std::size_t first_epilogue = region_begin(Region::epilogue);
        std::size_t update = first_epilogue;
        while (update < graph_.ops.size() && !changes_run_values(graph_.ops[update]))
            ++update;
        for (std::size_t i = first_epilogue; i < update; ++i)
            op_once(OpId(i));
        for (const ValueId v : graph_.outputs)
            fetch(v);
        made_.decision = made_.items.size();
        for (std::size_t i = update; i < graph_.ops.size(); ++i)
            op_once(OpId(i));
        return std::move(made_);
    }

private:
    /// Collectives and copies of the epilogue that wait only for the backward pass begin as soon as the last
    /// microbatch has computed their operands, concurrently with the rest of that pass.
    void find_early()
    {
        early_.resize(graph_.ops.size());
        done_.resize(graph_.ops.size(), false);
        std::vector<std::size_t> trigger(graph_.ops.size(), 0);
        for (std::size_t i = region_begin(Region::epilogue); i < graph_.ops.size(); ++i) {
            const Op& op = graph_.ops[i];
            bool early = (info(op).communicates || op.attrs.space) && !op.operands.empty();
            for (const ValueId v : op.operands) {
                const OpId producer = graph_[v].producer;
                early =
                    early && producer &&
                    (graph_[producer].region == Region::microbatch ? graph_[producer].phase == Phase::backward
                                                                   : trigger[producer.index()] > 0);
                if (early)
                    trigger[i] = std::max(trigger[i], graph_[producer].region == Region::microbatch
                                                          ? producer.index()
                                                          : trigger[producer.index()]);
            }
            if (early)
                early_[trigger[i]].push_back(OpId(i));
            else
                trigger[i] = 0;
        }
    }

    void ops_of(Region region, Phase phase, i64 microbatch)
    {
        for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
            if (graph_.ops[i].region != region ||
                (region != Region::prologue && graph_.ops[i].phase != phase))
                continue;
            made_.items.push_back({StepKind::op, OpId(i), {}, microbatch});
            if (phase == Phase::backward && microbatch == last_)
                for (const OpId early : early_[i])
                    op_once(early);
        }
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
        const bool of_last = graph_[v].lifetime == Lifetime::microbatch;
        made_.items.push_back({StepKind::fetch, {}, v, of_last ? last_ : -1});
    }

    std::size_t region_begin(Region region) const
    {
        return static_cast<std::size_t>(std::find_if(graph_.ops.begin(), graph_.ops.end(),
                                                     [&](const Op& op) { return op.region >= region; }) -
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
    i64 last_; ///< microbatch
    Unrolled made_;
    std::vector<std::vector<OpId>>
        early_;              ///< by op of the backward pass: collectives and copies that may begin after it
    std::vector<bool> done_; ///< ops of the epilogue that already have an item
};

} // namespace

Unrolled unroll(const Graph& graph, const std::vector<Task>& tasks, i64 microbatches)
{
    return Unroller(graph, microbatches).run(tasks);
}

bool trains(const Graph& graph)
{
    return std::any_of(graph.ops.begin(), graph.ops.end(),
                       [](const Op& op) { return op.phase == Phase::backward; });
}

} // namespace trivium
