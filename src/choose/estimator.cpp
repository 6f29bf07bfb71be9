#include "choose/estimator.hpp"

#include "base/check.hpp"
#include "choose/strategy_space.hpp"
#include "compile/graphs.hpp"
#include "config/schedules.hpp"
#include "ir/collectives.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

namespace {

bool is_within(const StageLimits& limits, Bytes arena, Bytes bytes)
{
    return (limits.arena == 0 || arena <= limits.arena) && (limits.bytes == 0 || bytes <= limits.bytes);
}

i64 threads_of(const RunConfig& config) { return std::max<i64>(1, config.parallel.threads); }

/// The blocks whose forward pass reads each value, by itself or through ops of the prologue.
std::vector<std::set<int>> readers_of(const Graph& graph)
{
    std::vector<std::set<int>> readers(graph.values.size());
    for (std::size_t i = graph.ops.size(); i-- > 0;) {
        const Op& op = graph.ops[i];
        std::set<int> blocks;
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            blocks.insert(op.block);
        else if (op.region == Region::prologue)
            for (const ValueId v : op.results)
                blocks.insert(readers[v.index()].begin(), readers[v.index()].end());
        for (const ValueId v : op.operands)
            readers[v.index()].insert(blocks.begin(), blocks.end());
    }
    return readers;
}

/// Adds the parameters that the blocks of a rank's graph read.
void add_parameters(const Graph& graph, BlockCosts& costs)
{
    const std::vector<std::set<int>> readers = readers_of(graph);
    const int last = static_cast<int>(costs.elements.size()) - 1;
    for (const ValueId id : graph.with_role(Role::parameter)) {
        const auto elements = static_cast<double>(graph[id].type.elements());
        const std::set<int>& blocks = readers[id.index()];
        const bool frozen = graph[id].update.kind == UpdateKind::frozen;
        for (const int block : blocks)
            (frozen ? costs.frozen : costs.elements)[static_cast<std::size_t>(block)] += elements;
        if (last > 0 && blocks.contains(0) && blocks.contains(last))
            (frozen ? costs.shared_frozen : costs.shared) += elements;
    }
}

/// Bytes that a rank would send from a block to later ones, where it is most. `graph`: of all ranks.
double most_sent(const Graph& graph, std::size_t blocks)
{
    const std::vector<std::set<int>> readers = readers_of(graph);
    std::vector<double> sent(blocks, 0); // behind each block
    for (const Op& op : graph.ops) {
        if (op.region != Region::microbatch || op.phase != Phase::forward)
            continue;
        for (const ValueId v : op.results) {
            auto bytes = static_cast<double>(graph[v].type.bytes());
            for (const DimSharding& dim : graph[v].sharding->dims)
                for (const std::string& axis : dim.axes)
                    bytes /= static_cast<double>(graph.mesh.size(axis));
            const int last = readers[v.index()].empty() ? 0 : *readers[v.index()].rbegin();
            for (int block = op.block; block < last; ++block)
                sent[static_cast<std::size_t>(block)] += bytes;
        }
    }
    return std::ranges::max(sent);
}

/// By op: whether it is a collective of a microbatch for which the rank waits, nearly. Compute hides those of
/// parameters and gradients along the data axis, and the steps of a ring.
std::vector<bool> awaited_collectives(const Graph& graph)
{
    const std::vector<bool> reduces = gradient_reductions(graph);
    std::vector<bool> awaited;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        const bool collective = info(op).communicates && op.region == Region::microbatch && !op.attrs->tag;
        const bool hidden = collective &&
                            (joins(*op.attrs->axis, data_axis) || joins(*op.attrs->axis, replica_axis)) &&
                            (reduces[i] || gathers_parameters(graph, op) ||
                             (info(op).exchanges && op.kind != OpKind::all_to_all));
        awaited.push_back(collective && !hidden);
    }
    return awaited;
}

/// The part of the awaited collectives during which a simulated step computes.
double hidden_part(const Program& program, const std::vector<bool>& awaited, const Machine& machine,
                   i64 threads)
{
    const Schedule& schedule = program.schedule;
    const Timeline timeline = simulate(program.graph, schedule, machine, threads);
    std::vector<Span> computes; // ascending
    for (std::size_t i = 0; i < schedule.steps.size(); ++i)
        if (schedule.steps[i].queue == queue_compute)
            computes.push_back(timeline.spans[i]);
    Seconds all = 0, hidden = 0;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op || step.queue == queue_compute || !awaited[step.op.index()])
            continue;
        const Span& span = timeline.spans[i];
        all += span.end - span.begin;
        auto at = std::ranges::upper_bound(computes, span.begin, {}, &Span::end);
        for (; at != computes.end() && at->begin < span.end; ++at)
            hidden += std::min(at->end, span.end) - std::max(at->begin, span.begin);
    }
    return all > 0 ? hidden / all : 0;
}

/// Adds the costs of a rank's graph to its blocks.
void add_costs(const Graph& graph, const std::vector<bool>& awaited, const Machine& machine, i64 threads,
               BlockCosts& costs)
{
    const std::vector<Seconds> seconds = op_seconds(graph, machine, threads);
    std::vector<bool> kept(graph.values.size(), false), waiting(kept); // to the backward pass, to its weights
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch && op.phase != Phase::forward)
            for (const ValueId v : op.operands) {
                kept[v.index()] = true;
                waiting[v.index()] = waiting[v.index()] || op.phase == Phase::weights;
            }
    Seconds update = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        if (op.region != Region::microbatch) {
            update += info(op).communicates ? 0 : seconds[i];
            continue;
        }
        StageCost& cost = costs.blocks[static_cast<std::size_t>(op.block)];
        for (const ValueId v : op.results)
            if (graph[v].lifetime == Lifetime::microbatch) {
                const auto bytes = static_cast<double>(graph[v].type.bytes());
                cost.activations += op.phase == Phase::forward && kept[v.index()] ? bytes : 0;
                cost.waiting += op.phase != Phase::weights && waiting[v.index()] ? bytes : 0;
            }
        if (op.attrs->tag)
            costs.message = std::max(costs.message, seconds[i]);
        cost.in_line += awaited[i] ? seconds[i] : 0;
        if (!info(op).communicates || awaited[i])
            (op.phase == Phase::forward    ? cost.forward
             : op.phase == Phase::backward ? cost.input_gradient
                                           : cost.weight_gradient) += seconds[i];
    }
    costs.update = std::max(costs.update, update);
}

Candidate with_microbatches(const Candidate& candidate, i64 microbatches)
{
    auto [config, order] = with_microbatches(candidate.config, microbatches);
    return {std::move(config), std::move(order)};
}

} // namespace

OrderCosts BlockCosts::of(const StageConfig& stages) const
{
    OrderCosts made(stages.rank_of_stage.size(), {0, 0, 0, 0, message, 0});
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        StageCost& sum = made[static_cast<std::size_t>(stages.stage_of_block[b])];
        sum.forward += blocks[b].forward;
        sum.input_gradient += blocks[b].input_gradient;
        sum.weight_gradient += blocks[b].weight_gradient;
        sum.activations += blocks[b].activations;
        sum.waiting += blocks[b].waiting;
    }
    return made;
}

ShardedTraining Compiling::known_graph(const std::string& key)
{
    const auto at = std::ranges::find_if(graphs_, [&](const auto& each) { return each.first == key; });
    if (at == graphs_.end())
        return {};
    std::rotate(at, at + 1, graphs_.end());
    return graphs_.back().second;
}

ChosenBuckets Compiling::compile(const Candidate& candidate, const std::function<bool(i64, Compiled&)>& visit,
                                 const std::function<bool(i64)>& included, bool outline)
{
    CompileConfig options;
    options.outline = outline;
    options.machine = machine_;
    options.runner.verify = false;
    options.moves = &moves_;
    const std::string key = plain_key(candidate.config);
    const ShardedTraining known = known_graph(key);
    TrainingCompiler compiler(candidate.config, candidate.order, options, {}, known);
    if (!known.graph) {
        constexpr std::size_t most = 16;
        if (graphs_.size() == most)
            graphs_.erase(graphs_.begin());
        graphs_.emplace_back(key, compiler.plain());
    }
    const RunConfig& config = candidate.config;
    std::string mode = config.parallel.bucket;
    if (mode == "auto")
        mode = outline ? guessed_buckets(candidate, compiler) : fastest_buckets(candidate, compiler);
    ChosenBuckets buckets{mode, compiler.sharded()};
    if (!visit)
        return buckets;
    for (i64 rank = 0; rank < compiler.mesh().ranks(); ++rank) {
        if (!is_first_of_stage(compiler.mesh(), rank))
            continue;
        const i64 stage = stage_of(compiler.mesh(), rank);
        if (included && !included(stage))
            continue;
        if (progress_)
            progress_();
        Compiled compiled = compiler.rank(rank, mode);
        if (!visit(rank, compiled))
            break;
    }
    return buckets;
}

std::string Compiling::guessed_buckets(const Candidate& candidate, TrainingCompiler& compiler)
{
    const ParallelConfig& p = candidate.config.parallel;
    if (!candidate.config.model.is_program())
        return p.pipeline == 1 && zero_ranks(p) > 1 ? "global" : usual_buckets(p);
    // Steps of programs often have one microbatch: then a mode may be far off.
    if (p.pipeline > 1)
        return fastest_buckets(candidate, compiler);
    const std::string key = str(p.zero, " ", p.data, " ", zero_ranks(p), " ", shard_ranks(p), " ",
                                tensor_ranks(p), " ", gathers_in_microbatches(p), " ",
                                reduces_in_microbatches(p), " ", candidate.order.shape.microbatches);
    auto known = modes_.find(key);
    if (known == modes_.end())
        known = modes_.emplace(key, fastest_buckets(candidate, compiler)).first;
    return known->second;
}

std::string Compiling::fastest_buckets(const Candidate& candidate, TrainingCompiler& compiler)
{
    const RunConfig& config = candidate.config;
    if (zero_ranks(config.parallel) == 1)
        return "greedy"; // nothing to merge along the data axis
    const BucketPlans& plans = compiler.bucket_plans();
    const auto even = even_microbatches(config, candidate.order);
    const auto seconds_of = [&](const Graph& graph, i64 microbatches) {
        ScheduleConfig schedule;
        schedule.microbatches = microbatches;
        schedule.place = config.parallel.overlap;
        return simulate(graph, build_schedule(graph, schedule), plans.machine(), plans.threads()).length();
    };
    const auto step_with = [&](const std::string& mode) {
        if (config.parallel.pipeline == 1) {
            const Graph& graph = compiler.alone(mode);
            return even ? even->extended(seconds_of(graph, even->few), seconds_of(graph, even->more))
                        : seconds_of(graph, candidate.order.shape.microbatches);
        }
        // More microbatches than fill the pipeline take the same time with all modes, if they have none of
        // the collectives.
        Candidate with = even && !transfers_in_microbatches(config.parallel)
                             ? with_microbatches(candidate, config.parallel.pipeline)
                             : candidate;
        with.config.parallel.bucket = mode;
        return rough_score(with, plans.machine(), {}).step;
    };
    std::vector<std::string> modes{"block", "greedy", "global"}; // of equal ones, the first
    // "greedy" is like it, but merges all-reduces for which microbatches wait.
    if (config.parallel.pipeline == 1 || tensor_ranks(config.parallel) == 1)
        modes.emplace_back("none");
    std::string best = modes.front();
    Seconds least = INFINITY;
    for (const std::string& mode : modes)
        try {
            if (const Seconds step = step_with(mode); step < least * (1 - 1e-9)) {
                best = mode;
                least = step;
            }
        } catch (const UserError&) { // stages of a program would wait for each other
        }
    return best;
}

std::optional<StagesNeed> Compiling::needs(const Candidate& candidate, const StageLimits& limits)
{
    Candidate usual = candidate;
    usual.config.parallel.bucket = usual_buckets(candidate.config.parallel);
    StagesNeed need;
    bool fits = true;
    need.buckets = compile(
        usual,
        [&](i64 rank, const Compiled& compiled) {
            const MemoryPlan& plan = compiled.memory;
            need.bytes = std::max(need.bytes, bytes_needed(plan, machine_));
            if (need.rank < 0 || plan.arena > need.largest.arena) {
                need.largest = plan;
                need.rank = rank;
                need.stage = stage_of(compiled.programs[train_program].graph.mesh, rank);
            }
            return fits = is_within(limits, plan.arena, need.bytes);
        },
        limits.included);
    return fits ? std::optional(std::move(need)) : std::nullopt;
}

ChosenBuckets Compiling::buckets(const Candidate& candidate)
{
    const std::string& mode = candidate.config.parallel.bucket;
    return mode == "auto" ? compile(candidate, {}) : ChosenBuckets{mode, {}};
}

std::vector<SimulatedRank> Compiling::outlined_ranks(const Candidate& candidate, const StageLimits& limits,
                                                     Score& score)
{
    std::vector<SimulatedRank> ranks;
    compile(
        candidate,
        [&](i64 rank, Compiled& compiled) {
            ranks.push_back({rank, std::move(compiled.programs[train_program]), compiled.memory, {}});
            return add_stage(compiled, limits, score);
        },
        {}, true);
    return ranks;
}

bool Compiling::add_stage(const Compiled& compiled, const StageLimits& limits, Score& score) const
{
    score.arena = std::max(score.arena, compiled.memory.arena);
    score.bytes.push_back(bytes_needed(compiled.memory, machine_));
    score.flops = compiled.flops;
    return score.fits = is_within(limits, compiled.memory.arena, score.bytes.back());
}

namespace {

void play(std::vector<SimulatedRank>& ranks, const RunConfig& config, const Machine& clock, Score& score)
{
    const auto threads = static_cast<int>(threads_of(config));
    score.step = simulate(ranks, clock, threads, config);
    score.parts = busiest_parts(ranks, score.step);
}

} // namespace

Score Compiling::score(const Candidate& candidate, const Machine& clock, const StageLimits& limits)
{
    Score score;
    CompiledStages stages{candidate, {}, {}, PlayedStep(candidate.config, candidate.order, machine_)};
    stages.buckets = compile(candidate, [&](i64 rank, Compiled& compiled) {
        if (!add_stage(compiled, limits, score))
            return false;
        stages.step.add(rank, std::move(compiled.programs[train_program]), compiled.memory);
        stages.ranks.emplace_back(rank, std::move(compiled));
        return true;
    });
    if (!score.fits)
        return score;
    score.step = stages.step.simulate(clock, static_cast<int>(threads_of(candidate.config)));
    score.parts = stages.step.parts();
    if (keeps_fastest_ && (!fastest_ || score.step < fastest_step_)) {
        fastest_ = std::make_unique<CompiledStages>(std::move(stages));
        fastest_step_ = score.step;
    }
    return score;
}

double Compiling::growth(const Candidate& candidate)
{
    const auto even = even_microbatches(candidate.config, candidate.order);
    if (!even)
        return 1;
    if (rough_.key != key_of(candidate.config))
        rough_score(candidate, machine_, {});
    const Candidate more = with_microbatches(candidate, std::min(even->all, 2 * even->few));
    const LayOutConfig lay_out_more = lay_out_config(more.config, machine_);
    set_steps(rough_.first, std::make_shared<const PipelineOrder>(more.order), 0, lay_out_more);
    return std::max(1.0, static_cast<double>(lay_out({&rough_.first, 1}, lay_out_more).device.arena) /
                             static_cast<double>(rough_.arena));
}

Score Compiling::rough_score(const Candidate& candidate, const Machine& clock, const StageLimits& limits)
{
    const auto even = even_microbatches(candidate.config, candidate.order);
    Score score;
    if (!even) {
        std::vector<SimulatedRank> ranks = outlined_ranks(candidate, limits, score);
        if (score.fits)
            play(ranks, candidate.config, clock, score);
        return score;
    }
    const Candidate smaller = with_microbatches(candidate, even->few);
    std::vector<SimulatedRank> ranks = outlined_ranks(smaller, limits, score);
    if (!score.fits)
        return score;
    play(ranks, smaller.config, clock, score);
    Score longer = score;
    const Candidate larger = with_microbatches(candidate, even->more);
    const auto order = std::make_shared<const PipelineOrder>(larger.order);
    for (std::size_t stage = 0; stage < ranks.size(); ++stage)
        set_steps(ranks[stage].program, order, stage, lay_out_config(smaller.config, machine_));
    play(ranks, larger.config, clock, longer);
    rough_ = {key_of(candidate.config), std::move(ranks[0].program), ranks[0].memory.arena};
    score.step = even->extended(score.step, longer.step);
    score.parts = even->extended(std::move(score.parts), longer.parts);
    score.flops *= static_cast<double>(even->all) / static_cast<double>(even->few);
    return score;
}

BlockCosts Compiling::block_costs(const Candidate& candidate, const Machine& clock)
{
    BlockCosts costs;
    costs.blocks.assign(static_cast<std::size_t>(candidate.config.model.blocks()), {0, 0, 0, 0, 0, 0});
    costs.elements.assign(costs.blocks.size(), 0);
    costs.frozen.assign(costs.blocks.size(), 0);
    compile(
        candidate,
        [&](i64, const Compiled& compiled) {
            const Program& program = compiled.programs[train_program];
            const i64 threads = threads_of(candidate.config);
            const std::vector<bool> awaited = awaited_collectives(program.graph);
            add_costs(program.graph, awaited, clock, threads, costs);
            if (candidate.order.shape.ranks == 1)
                costs.hidden = hidden_part(program, awaited, clock, threads);
            add_parameters(program.graph, costs);
            if (compiled.memory.arena > costs.memory.arena)
                costs.memory = compiled.memory;
            costs.sent = most_sent(*program.sharded, costs.blocks.size());
            return true;
        },
        {}, true);
    return costs;
}

Bytes bytes_needed(const MemoryPlan& plan, const Machine& machine)
{
    return plan.arena + plan.process + (machine.is_device ? 0 : plan.outside());
}

} // namespace trivium
