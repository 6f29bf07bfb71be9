#include "choose/quick_estimate.hpp"

#include "base/check.hpp"
#include "config/schedules.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

double as_double(i64 value) { return static_cast<double>(value); }

/// Bytes that a rank keeps for each element of its tensor shard.
double kept_per_element(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    const double master = as_double(size_of(master_type(c.train.precision))),
                 compute = as_double(size_of(compute_type(c.train.precision)));
    const Optimizer& optimizer = optimizer_row(c.train.optimizer);
    const double states = as_double(static_cast<i64>(find_op(optimizer.matrices)->states.size()));
    const bool shards = shard_ranks(p) > 1 && p.zero > 0;
    const double part = shards ? 1 / as_double(shard_ranks(p)) : 1;
    const bool offload = p.offload == Offload::optimizer;
    const double kept = offload ? 0 : (1 + states) * master * part;
    const double copy = p.zero == 3 && shards ? (p.gather_every == GatherEvery::pass ? 0 : compute)
                        : compute < master || shards || offload ? compute
                                                                : 0;
    const double gradient = p.accumulate == GradientType::bf16 ? 2 : master;
    const bool reduced = shards && p.zero >= 2 && p.reduce_every != ReduceEvery::step;
    return kept + copy + gradient * (reduced ? part : 1);
}

StageCost operator*(StageCost cost, double times)
{
    return {cost.forward * times, cost.input_gradient * times, cost.weight_gradient * times,
            cost.activations * times, cost.message};
}

StageCost operator+(const StageCost& a, const StageCost& b)
{
    return {a.forward + b.forward, a.input_gradient + b.input_gradient, a.weight_gradient + b.weight_gradient,
            a.activations + b.activations, a.message};
}

Seconds seconds_of(const StageCost& cost)
{
    return cost.forward + cost.input_gradient + cost.weight_gradient;
}

/// Idle time of a rank in a step: the named schedules' bubbles (Qi et al. 2023 and 2024; Narayanan et al.
/// 2021), for stages whose passes take as long as the average.
Seconds bubble_of(ScheduleKind kind, double chunks, double others, const StageCost& mean)
{
    const Seconds whole = seconds_of(mean) * others,
                  split = std::max(0.0, mean.forward + mean.input_gradient - mean.weight_gradient) * others,
                  none =
                      std::max(0.0, mean.forward + mean.input_gradient - 2 * mean.weight_gradient) * others;
    switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b: return whole;
    case ScheduleKind::interleaved:
    case ScheduleKind::breadth_first: return whole / chunks;
    case ScheduleKind::zb_h1: return split;
    case ScheduleKind::zb_h2: return none;
    case ScheduleKind::zb_v:
    case ScheduleKind::dualpipe_v: return none + 0.05 * whole;
    case ScheduleKind::v_half: return whole / 2;
    case ScheduleKind::v_min: return whole * 2 / 3;
    }
    return whole;
}

/// Microbatches whose activations the first rank keeps, each of all its stages.
double in_flight(ScheduleKind kind, double ranks, double chunks, double microbatches)
{
    const double most = kind == ScheduleKind::gpipe || kind == ScheduleKind::breadth_first ? microbatches
                        : kind == ScheduleKind::interleaved ? ranks * (1 + (ranks - 1) / (ranks * chunks))
                        : kind == ScheduleKind::zb_h2       ? 2 * ranks - 1
                        : kind == ScheduleKind::dualpipe_v  ? ranks + 1
                        : kind == ScheduleKind::v_half      ? ranks / 2 + 1
                        : kind == ScheduleKind::v_min       ? ranks / 3 + 1
                                                            : ranks;
    return std::min(most, microbatches);
}

/// Layers of the stage that takes longest, if each rank has one stage and the ends have fewer layers.
double layers_of_longest(double layers, i64 stages, Seconds layer, Seconds first, Seconds last)
{
    const auto room = [&](double most, Seconds end) {
        return std::max(0.0, std::floor((most * layer - end) / layer + 1e-9));
    };
    for (double most = std::floor(layers / as_double(stages));; ++most)
        if (stages == 1 || most >= layers ||
            as_double(stages - 2) * most + room(most, first) + room(most, last) >= layers)
            return stages == 1 ? layers : most;
}

} // namespace

const QuickEstimator::Elements& QuickEstimator::elements_of(const ModelConfig& m)
{
    if (elements_)
        return *elements_;
    ModelConfig none = m;
    none.layers = 0;
    const double outer = as_double(parameter_count(none)), table = as_double(m.vocab) * as_double(m.dim);
    // A tied table is on both ends of a pipeline.
    elements_ = {as_double(parameter_count(m) - parameter_count(none)) / as_double(m.layers),
                 m.tied_embeddings ? outer : outer - table, table};
    return *elements_;
}

const QuickEstimator::Profile& QuickEstimator::profile(const RunConfig& config, Recompute recompute)
{
    const ParallelConfig& p = config.parallel;
    const auto [at, added] = profiles_.try_emplace(
        {p.context, p.context_heads, p.tensor, config.train.micro_batch, p.sequence, recompute});
    if (!added) {
        if (!at->second)
            throw UserError({"the model", "does not fit the grid", "", ""});
        return *at->second;
    }
    RunConfig small = config;
    ModelConfig& m = small.model;
    m.layers = std::min<i64>(m.layers, std::max<i64>({2, static_cast<i64>(m.layer_pattern.size()),
                                                      static_cast<i64>(m.rotary_pattern.size())}));
    small.parallel = {};
    small.parallel.context = p.context;
    small.parallel.context_heads = p.context_heads;
    small.parallel.tensor = p.tensor;
    small.parallel.sequence = p.sequence;
    small.parallel.threads = threads_(p);
    small.parallel.accumulate = p.accumulate;
    small.parallel.group = p.group;
    small.parallel.recompute = recompute;
    small.parallel.bucket = "none";
    small.parallel.schedule = name_of(ScheduleKind::zb_h1);
    small.parallel.gather_every = GatherEvery::pass;
    small.parallel.reduce_every = ReduceEvery::microbatch;
    small.train.global_batch = 2 * config.train.micro_batch;
    small.train.batch_ramp = {};
    const BlockCosts costs = estimator_.block_costs({small, training_order(small)}, clock_);
    Profile made;
    made.first = costs.blocks.front();
    made.last = costs.blocks.back();
    double activations = made.first.activations + made.last.activations;
    made.layer = {0, 0, 0, 0, 0};
    for (std::size_t b = 1; b + 1 < costs.blocks.size(); ++b) {
        made.layer = made.layer + costs.blocks[b];
        activations += costs.blocks[b].activations;
    }
    made.layer = made.layer * (1 / as_double(m.layers));
    const double elements = as_double(parameter_count(m)) / as_double(p.tensor);
    made.beyond =
        std::max(0.0, as_double(costs.memory.arena) - activations - kept_per_element(small) * elements);
    made.per_element = costs.update / elements;
    at->second = made;
    return *at->second;
}

QuickEstimator::Profile QuickEstimator::mixed(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    Profile made = profile(config, p.recompute);
    if (p.recompute_layers == 0 || p.recompute == Recompute::none)
        return made;
    const Profile& less =
        profile(config, p.recompute == Recompute::full ? Recompute::selective : Recompute::none);
    const double part = as_double(p.recompute_layers) / as_double(config.model.layers);
    made.layer = made.layer * part + less.layer * (1 - part);
    made.beyond = std::max(made.beyond, less.beyond);
    return made;
}

const TransferCost& QuickEstimator::transfer(const std::string& axis, const ParallelConfig& grid)
{
    const auto [at, added] = transfers_.try_emplace(
        {axis, grid.data * grid.context, grid.pipeline, grid.tensor, shard_ranks(grid)});
    if (added)
        at->second = transfer_cost(axis, mesh_of(grid), clock_);
    return at->second;
}

/// Of `bytes` that a rank sends in `runs` collectives.
Seconds QuickEstimator::seconds_along(const std::string& axis, const ParallelConfig& grid, double bytes,
                                      double runs)
{
    const TransferCost& cost = transfer(axis, grid);
    return runs * (cost.start + cost.messages) + bytes / cost.bytes_per_second;
}

Seconds QuickEstimator::message(const RunConfig& config) const
{
    const ParallelConfig& p = config.parallel;
    const double bytes = as_double(config.train.micro_batch * config.model.seq * config.model.dim *
                                   size_of(compute_type(config.train.precision))) /
                         (as_double(p.context) * (p.sequence ? as_double(p.tensor) : 1));
    const bool between = clock_.node_of(p.tensor * p.pipeline - 1) > 0;
    return p.pipeline == 1 ? 0 : clock_.launch + clock_.latency(between) + bytes / clock_.link_rate(between);
}

QuickEstimator::Share QuickEstimator::share_of(const RunConfig& config, const Profile& profile, double layers,
                                               bool first, bool last)
{
    const ParallelConfig& p = config.parallel;
    const Elements& counts = elements_of(config.model);
    Share share;
    share.cost = profile.layer * layers;
    double elements = counts.layer * layers;
    if (first) {
        share.cost = share.cost + profile.first;
        elements += counts.first;
    }
    if (last) {
        share.cost = share.cost + profile.last;
        elements += counts.last;
    }
    if (first && last && config.model.tied_embeddings)
        elements -= counts.last;
    share.cost.message = message(config);
    elements /= as_double(p.tensor);
    share.kept = kept_per_element(config) * elements;

    const double runs = std::max(1.0, layers), shards = as_double(shard_ranks(p)),
                 replicas = as_double(p.data * p.context) / shards;
    const bool zero = p.zero > 0 && shards > 1;
    share.outside = profile.per_element * elements / (zero ? shards : 1);
    if (p.data * p.context == 1)
        return share;
    const double gradient = as_double(p.reduce == GradientType::bf16
                                          ? 2
                                          : size_of(master_type(config.train.precision))) *
                            elements,
                 copy = as_double(size_of(compute_type(config.train.precision))) * elements;
    const double forward = share.cost.forward,
                 backward = share.cost.input_gradient + share.cost.weight_gradient;
    const bool gathers = zero && p.zero == 3 && p.gather_every != GatherEvery::step,
               reduces = zero && p.zero >= 2 && p.reduce_every != ReduceEvery::step;
    const double most = (shards - 1) / shards;
    const Seconds gather = zero ? seconds_along(data_axis, p, copy * most, runs) : 0,
                  reduce = zero ? seconds_along(data_axis, p, gradient * most, runs)
                                : seconds_along(data_axis, p, 2 * gradient * most, runs);
    const auto exposed = [&](Seconds transfers, Seconds compute) {
        return !p.overlap ? transfers : std::max(transfers / runs, transfers - compute * (1 - 1 / runs));
    };
    const auto hidden_in_pass = [&](Seconds transfers, Seconds compute) {
        return !p.overlap ? transfers : std::max(0.0, transfers - compute);
    };
    if (gathers)
        share.cost.forward += hidden_in_pass(gather, forward);
    else if (zero)
        share.outside += exposed(gather, forward);
    const Seconds again = gathers && p.gather_every == GatherEvery::pass ? gather : 0;
    share.cost.input_gradient += hidden_in_pass(again + (reduces ? reduce : 0), backward);
    if (!reduces)
        share.outside += exposed(reduce, backward);
    else
        share.outside += reduce / runs;
    if (zero && replicas > 1)
        share.outside +=
            seconds_along(replica_axis, p, 2 * gradient / shards * (replicas - 1) / replicas, runs);
    if (!clock_.is_device) { // a core copies
        const double sent = (gradient + (zero ? copy : gradient)) * most;
        share.outside += sent / clock_.copy_bytes_per_second;
    }
    if (gathers) // two layers, and their gradients
        share.kept += 2 * (copy + gradient) / runs;
    return share;
}

QuickEstimate QuickEstimator::estimate(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    const Profile profile = mixed(config);
    const double layers = as_double(config.model.layers), ranks = as_double(p.pipeline),
                 microbatches = as_double(microbatch_count(config));
    const ScheduleKind kind = schedule_called(p.schedule).value_or(ScheduleKind::one_f_one_b); // or a file
    const double chunks = as_double(stages_per_rank(kind, p.chunks));
    const Share whole = share_of(config, profile, layers, true, true);
    if (p.pipeline == 1)
        return {microbatches * seconds_of(whole.cost) + whole.outside,
                whole.kept + whole.cost.activations + profile.beyond};
    const double most = chunks > 1 ? layers / ranks
                                   : layers_of_longest(layers, p.pipeline, seconds_of(profile.layer),
                                                       seconds_of(profile.first), seconds_of(profile.last));
    const Share middle = share_of(config, profile, most, false, false);
    const StageCost all = profile.layer * layers + profile.first + profile.last;
    const Seconds longest =
        std::max({seconds_of(middle.cost), seconds_of(profile.last), seconds_of(all) / ranks});
    const StageCost mean = all * (1 / ranks);
    const Seconds bubble = bubble_of(kind, chunks, ranks - 1, mean);
    const Seconds messages = 2 * (ranks - 1) * middle.cost.message;
    const double kept_in_flight = in_flight(kind, ranks, chunks, microbatches);
    const Share first = share_of(config, profile, std::min(most, layers / ranks), true, false);
    return {microbatches * longest + bubble + messages + middle.outside,
            std::max(first.kept + kept_in_flight * middle.cost.activations,
                     middle.kept + middle.cost.activations + profile.beyond)};
}

QuickEstimate QuickEstimator::played(const RunConfig& config, const PipelineOrder& order)
{
    if (config.parallel.pipeline == 1)
        return estimate(config);
    const Profile profile = mixed(config);
    const PipelineShape& shape = order.shape;
    const auto [at, added] = stages_.try_emplace({shape.ranks, shape.chunks, shape.v_shaped});
    if (added)
        at->second = stages_of_model(config, shape);
    const StageConfig& stages = at->second;
    const int blocks = static_cast<int>(stages.stage_of_block.size());
    OrderCosts costs;
    std::vector<double> layers(static_cast<std::size_t>(shape.ranks), 0);
    std::vector<bool> first(layers.size(), false), last(layers.size(), false);
    for (int stage = 0; stage < static_cast<int>(shape.stages()); ++stage) {
        const auto rank = static_cast<std::size_t>(stages.rank_of_stage[static_cast<std::size_t>(stage)]);
        const auto count = std::ranges::count(stages.stage_of_block, stage);
        const bool begin = stages.stage_of_block.front() == stage,
                   end = stages.stage_of_block[static_cast<std::size_t>(blocks - 1)] == stage;
        const double own = as_double(count) - (begin ? 1 : 0) - (end ? 1 : 0);
        costs.push_back(share_of(config, profile, own, begin, end).cost);
        layers[rank] += own;
        first[rank] = first[rank] || begin;
        last[rank] = last[rank] || end;
    }
    const std::optional<Playback> played = play(order, costs);
    TRV_CHECK(played, "the order of ", config.parallel.schedule, " waits forever");
    QuickEstimate made;
    for (std::size_t rank = 0; rank < layers.size(); ++rank) {
        const Share share = share_of(config, profile, layers[rank], first[rank], last[rank]);
        const Seconds end = played->spans[rank].empty() ? 0 : played->spans[rank].back().end;
        made.step = std::max(made.step, end + share.outside);
        made.bytes = std::max(made.bytes, share.kept + played->peak[rank] +
                                              (last[rank] ? profile.beyond : profile.beyond / 4));
    }
    return made;
}

} // namespace trivium
