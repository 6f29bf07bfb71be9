#include "compile/choose_schedule.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "compile/choose_buckets.hpp"
#include "compile/pipeline.hpp"
#include "compile/simulated_step.hpp"
#include "config/schedules.hpp"
#include "plan/cost.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_file.hpp"
#include "schedule/search_order.hpp"

#include <algorithm>

namespace trivium {

namespace {

i64 threads_of(const RunConfig& config) { return std::max<i64>(1, config.parallel.threads); }

/// Adds the costs of a rank's graph to its blocks.
void add_costs(const Graph& graph, const Machine& machine, i64 threads, BlockCosts& costs)
{
    const std::vector<Seconds> seconds = op_seconds(graph, machine, threads);
    std::vector<bool> kept(graph.values.size(), false);
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch && op.phase != Phase::forward)
            for (const ValueId v : op.operands)
                kept[v.index()] = true;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        if (op.region != Region::microbatch)
            continue;
        StageCost& cost = costs.blocks[static_cast<std::size_t>(op.block)];
        if (op.phase == Phase::forward)
            for (const ValueId v : op.results)
                if (kept[v.index()] && graph[v].lifetime == Lifetime::microbatch)
                    cost.activations += static_cast<double>(graph[v].type.bytes());
        if (op.attrs.tag)
            costs.message = std::max(costs.message, seconds[i]);
        const bool in_line = !info(op).communicates || (!op.attrs.tag && *op.attrs.axis == tensor_axis);
        if (in_line)
            (op.phase == Phase::forward    ? cost.forward
             : op.phase == Phase::backward ? cost.input_gradient
                                           : cost.weight_gradient) += seconds[i];
    }
}

/// The step of a config on the simulator's clock, and its largest arena.
struct Simulated {
    Seconds step = 0;
    Bytes arena = 0;
};
Simulated simulated(RunConfig config, const CompileConfig& options, const Machine& machine)
{
    config.parallel.memory_limit = 0;
    CompileConfig quietly;
    quietly.machine = options.machine;
    quietly.runner.verify = false;
    Simulated made;
    std::vector<SimulatedRank> ranks;
    compile_ranks(config, quietly, is_first_of_stage, [&](i64 rank, Compiled& compiled) {
        made.arena = std::max(made.arena, compiled.memory.arena);
        ranks.push_back({rank, std::move(compiled.programs[train_program]), compiled.memory, {}});
    });
    made.step = simulate(ranks, machine, static_cast<int>(threads_of(config)), config.parallel.overlap);
    Activity::of_process().advance();
    return made;
}

RunConfig with_order(RunConfig config, const FoundOrder& found)
{
    config.parallel.schedule_rows = to_csv(found.order);
    config.parallel.schedule_near = name_of(found.nearest);
    return config;
}

/// The kinds of updates that the config may have.
std::vector<UpdateMode> updates_of(const ParallelConfig& p)
{
    if (p.update != UpdateMode::automatic)
        return {p.update};
    if (p.pipeline == 1 || p.offload != Offload::none || p.graphs)
        return {UpdateMode::synchronous};
    return {UpdateMode::synchronous, UpdateMode::post_validated};
}

/// The least of what is simulated for each kind of update that fits: a post-validated one must be 1 %
/// shorter, because some steps are clipped.
class Fastest {
public:
    explicit Fastest(Bytes limit) : limit_(limit) {}

    void look_at(RunConfig config, const CompileConfig& options, const Machine& machine)
    {
        for (const UpdateMode update : updates_of(config.parallel)) {
            config.parallel.update = update;
            const Simulated now = simulated(config, options, machine);
            if (!best_ || std::pair(!fits(now), cost(config, now)) <
                              std::pair(!fits(best_->second), cost(best_->first, best_->second)))
                best_.emplace(config, now);
        }
    }
    std::pair<RunConfig, Simulated> take() { return std::move(*best_); }

private:
    bool fits(const Simulated& s) const { return limit_ <= 0 || s.arena <= limit_; }
    static Seconds cost(const RunConfig& config, const Simulated& s)
    {
        return config.parallel.update == UpdateMode::post_validated ? s.step / 0.99 : s.step;
    }

    Bytes limit_;
    std::optional<std::pair<RunConfig, Simulated>> best_;
};

/// Bytes that the arena of a rank may have; 0: unknown.
Bytes limit_of(const ParallelConfig& p, const Machine& machine)
{
    return p.memory_limit > 0  ? p.memory_limit
           : machine.is_device ? machine.memory - machine.process
                               : 0; // a host's memory is not known here
}

/// The best order for the microbatch of the config, by simulation of the most promising ones.
std::pair<RunConfig, Simulated> best_order(const RunConfig& config, const CompileConfig& options,
                                           const Machine& machine)
{
    const ParallelConfig& p = config.parallel;
    const Bytes limit = limit_of(p, machine);
    RunConfig plain = config;
    plain.parallel.update = updates_of(p).front();
    plain.parallel.schedule = name_of(ScheduleKind::zb_h1);
    plain.parallel.chunks = 0;
    plain.parallel.memory_limit = 0;
    const BlockCosts costs = block_costs(plain, options, machine);
    std::map<std::pair<i64, bool>, OrderCosts> known; // by shape
    OrderSearch search;
    search.ranks = p.pipeline;
    search.microbatches = microbatch_count(config);
    search.named = schedules_of(p.pipeline, config.model.layers + 2);
    if (p.chunks > 0)
        std::erase_if(search.named, [&](const auto& each) { return each.second != p.chunks; });
    search.costs = [&](const PipelineShape& shape) {
        const auto [at, added] = known.try_emplace({shape.chunks, shape.v_shaped});
        if (added)
            at->second = costs.of(stages_of_model(config, shape));
        return at->second;
    };
    const auto peak_of = [&](ScheduleKind kind) {
        const PipelineOrder order = named_order(kind, p.pipeline, 1, search.microbatches);
        const Playback played = *play(order, search.costs(order.shape));
        return *std::max_element(played.peak.begin(), played.peak.end());
    };
    search.most = peak_of(ScheduleKind::zb_h2);
    if (limit > 0) // what it leaves to activations
        search.most = std::max(1.0, static_cast<double>(limit - simulated(plain, options, machine).arena) +
                                        peak_of(ScheduleKind::zb_h1));
    std::vector<FoundOrder> candidates = candidate_orders(search);
    if (candidates.empty()) // nothing is expected to fit: those that need least memory, for the error message
        candidates = {{named_order(ScheduleKind::one_f_one_b, p.pipeline, 1, search.microbatches), 0,
                       ScheduleKind::one_f_one_b}};
    Fastest fastest(limit);
    for (const FoundOrder& candidate : candidates)
        fastest.look_at(with_order(config, candidate), options, machine);
    return fastest.take();
}

} // namespace

OrderCosts BlockCosts::of(const StageConfig& stages) const
{
    OrderCosts made(stages.rank_of_stage.size(), {0, 0, 0, 0, message});
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        StageCost& sum = made[static_cast<std::size_t>(stages.stage_of_block[b])];
        sum.forward += blocks[b].forward;
        sum.input_gradient += blocks[b].input_gradient;
        sum.weight_gradient += blocks[b].weight_gradient;
        sum.activations += blocks[b].activations;
    }
    return made;
}

BlockCosts block_costs(const RunConfig& config, const CompileConfig& options, const Machine& machine)
{
    CompileConfig quietly;
    quietly.machine = options.machine;
    quietly.runner.verify = false;
    BlockCosts costs;
    costs.blocks.assign(static_cast<std::size_t>(config.model.layers + 2), {0, 0, 0, 0, 0});
    compile_ranks(config, quietly, is_first_of_stage, [&](i64, const Compiled& compiled) {
        add_costs(compiled.programs[train_program].graph, machine, threads_of(config), costs);
    });
    return costs;
}

RunConfig choose_schedule(const RunConfig& config, const CompileConfig& options)
{
    const bool searches =
        config.parallel.schedule == automatic_schedule && config.parallel.schedule_rows.empty();
    if (config.parallel.pipeline == 1) {
        RunConfig alone = config;
        alone.parallel.update = updates_of(config.parallel).front();
        if (searches) {
            alone.parallel.schedule = name_of(ScheduleKind::one_f_one_b);
            alone.parallel.chunks = 0;
        }
        return alone;
    }
    if (!searches && config.parallel.update != UpdateMode::automatic)
        return config;
    const Machine machine = deciding_machine(config.parallel, options.machine.is_device);
    if (!searches) {
        Fastest fastest(limit_of(config.parallel, machine));
        fastest.look_at(config, options, machine);
        return fastest.take().first;
    }
    const i64 share = config.train.global_batch / config.parallel.data;
    std::optional<std::pair<RunConfig, Simulated>> best;
    const auto look_at = [&](i64 micro) {
        RunConfig candidate = config;
        candidate.train.micro_batch = micro;
        std::pair<RunConfig, Simulated> made = best_order(candidate, options, machine);
        if (!best || made.second.step < best->second.step)
            best = std::move(made);
    };
    if (config.train.micro_batch > 0)
        look_at(config.train.micro_batch);
    else
        for (i64 micro = 1; micro <= share; micro *= 2)
            if (share % micro == 0 && share / micro <= 32 * config.parallel.pipeline)
                look_at(micro);
    if (!best)
        look_at(share);
    return std::move(best->first);
}

} // namespace trivium
