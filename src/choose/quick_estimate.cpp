#include "choose/quick_estimate.hpp"

#include "base/check.hpp"
#include "choose/strategy_space.hpp"
#include "compile/graphs.hpp"
#include "config/schedules.hpp"
#include "config/trained_parameters.hpp"
#include "passes/memory/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

StageCost operator*(StageCost cost, double times)
{
    return {cost.forward * times,
            cost.input_gradient * times,
            cost.weight_gradient * times,
            cost.activations * times,
            cost.message,
            cost.waiting * times,
            cost.in_line * times,
            cost.gradients * times};
}

StageCost operator+(const StageCost& a, const StageCost& b)
{
    return {a.forward + b.forward,
            a.input_gradient + b.input_gradient,
            a.weight_gradient + b.weight_gradient,
            a.activations + b.activations,
            a.message,
            a.waiting + b.waiting,
            a.in_line + b.in_line,
            a.gradients + b.gradients};
}

/// Whether costs are those of split backward passes: also for orders of files, and of models of which a
/// profile takes long, that is those with experts, and programs.
bool may_split(const RunConfig& config)
{
    const auto kind = schedule_called(config.parallel.schedule);
    return !kind || splits_backward(*kind) || config.model.experts > 0 || config.model.is_program();
}

/// The kind of a block (QuickEstimator::Profile).
std::size_t kind_of(const ModelConfig& model, std::size_t block)
{
    if (model.is_program() || block == 0)
        return block;
    return block + 1 < static_cast<std::size_t>(model.blocks()) ? 1 : 2;
}

/// The model's blocks by kind.
std::vector<double> counts_of(const ModelConfig& model)
{
    if (model.is_program())
        return std::vector<double>(static_cast<std::size_t>(model.blocks()), 1);
    return {1, as_double(model.layers), 1};
}

/// Whether blocks of this kind have collectives of their own.
bool is_repeated(const ModelConfig& model, std::size_t kind) { return model.is_program() || kind == 1; }

} // namespace

QuickEstimator::ProfilePointer QuickEstimator::profile(const RunConfig& config, Recompute recompute)
{
    const ParallelConfig& p = config.parallel;
    std::vector<i64> degrees = tensor_degrees_of(p);
    degrees.insert(degrees.end(), {p.context_heads, static_cast<i64>(p.context_form), p.expert});
    const auto [at, added] = profiles_.try_emplace(
        {std::move(degrees), config.train.micro_batch, p.sequence, recompute, may_split(config), p.overlap});
    if (added) {
        std::optional<Profile> made = between(config, recompute);
        at->second =
            std::make_shared<const Profile>(made ? std::move(*made) : compiled_profile(config, recompute));
    }
    if (!at->second)
        throw UserError({"the model", "does not fit the grid", "", ""});
    return at->second;
}

/// Costs are affine in the microbatch, nearly.
std::optional<QuickEstimator::Profile> QuickEstimator::between(const RunConfig& config, Recompute recompute)
{
    constexpr i64 few = 1, many = 8;
    const i64 micro = config.train.micro_batch;
    if (micro == few || micro == many)
        return std::nullopt;
    RunConfig other = config;
    const auto at = [&](i64 samples) {
        other.train.micro_batch = samples;
        return profile(other, recompute);
    };
    Profile made;
    try {
        made = *at(few);
        const ProfilePointer of_many = at(many);
        const Profile& more = *of_many;
        const double part = as_double(micro - few) / as_double(many - few);
        const auto extend = [&](double& from, double to) { from = std::max(0.0, from + part * (to - from)); };
        for (std::size_t kind = 0; kind < made.costs.size(); ++kind) {
            StageCost& cost = made.costs[kind];
            const StageCost& to = more.costs[kind];
            extend(cost.forward, to.forward);
            extend(cost.input_gradient, to.input_gradient);
            extend(cost.weight_gradient, to.weight_gradient);
            extend(cost.activations, to.activations);
            extend(cost.waiting, to.waiting);
            extend(cost.in_line, to.in_line);
        }
        extend(made.sent, more.sent);
        extend(made.beyond, more.beyond);
    } catch (const UserError&) { // its file may have a fixed number of samples
        return std::nullopt;
    }
    return made;
}

QuickEstimator::Profile QuickEstimator::compiled_profile(const RunConfig& config, Recompute recompute)
{
    const ParallelConfig& p = config.parallel;
    RunConfig small = config;
    ModelConfig& m = small.model;
    const i64 layers = m.layers;
    if (!m.is_program())
        m.layers = std::min<i64>(m.layers, std::max<i64>({2, static_cast<i64>(m.layer_pattern.size()),
                                                          static_cast<i64>(m.rotary_pattern.size())}));
    m.dense_layers = std::min((2 * m.dense_layers * m.layers + layers) / (2 * layers), // rounded
                              m.experts > 0 ? m.layers - 1 : m.dense_layers);
    if (!m.is_program() && parameter_counts(small).trained == 0) { // they name other layers
        small.train.freeze.clear();
        small.train.lora.targets.clear();
    }
    small.parallel = {};
    small.parallel.context = p.context;
    small.parallel.context_heads = p.context_heads;
    small.parallel.expert = p.expert;
    small.parallel.expert_buffer = p.expert_buffer;
    small.parallel.data = p.expert / std::gcd(p.expert, p.context);
    small.parallel.context_form = p.context_form;
    small.parallel.tensor = p.tensor;
    small.parallel.axes = p.axes;
    small.parallel.sequence = p.sequence;
    small.parallel.overlap = p.overlap;
    small.parallel.threads = threads_(p);
    small.parallel.accumulate = p.accumulate;
    small.parallel.group = p.group;
    small.parallel.recompute = recompute;
    small.parallel.bucket = "none";
    small.parallel.schedule = name_of(may_split(config) ? ScheduleKind::zb_h1 : ScheduleKind::one_f_one_b);
    small.parallel.gather_every = GatherEvery::pass;
    small.parallel.reduce_every = ReduceEvery::microbatch;
    small.train.global_batch = 2 * config.train.micro_batch * batch_ranks(small.parallel);
    small.train.batch_ramp = {};
    const BlockCosts costs = estimator_.block_costs({small, training_order(small)}, clock_);
    Profile made;
    const std::vector<double> counts = counts_of(m);
    made.costs.assign(counts.size(), {0, 0, 0, 0, 0, 0});
    made.elements.assign(counts.size(), 0);
    made.frozen.assign(counts.size(), 0);
    double activations = 0, elements = -costs.shared, frozen = -costs.shared_frozen;
    for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
        const std::size_t kind = kind_of(m, b);
        made.costs[kind] = made.costs[kind] + costs.blocks[b] * (1 / counts[kind]);
        made.elements[kind] += costs.elements[b] / counts[kind];
        activations += costs.blocks[b].activations;
        elements += costs.elements[b];
        made.frozen[kind] += costs.frozen[b] / counts[kind];
        frozen += costs.frozen[b];
    }
    for (StageCost& cost : made.costs) { // mostly behind gradients of weights
        cost.input_gradient = std::max(0.0, cost.input_gradient - costs.hidden * cost.in_line);
        cost.in_line *= 1 - costs.hidden;
    }
    made.shared = costs.shared;
    made.shared_frozen = costs.shared_frozen;
    made.sent = costs.sent;
    made.beyond = std::max(
        0.0, as_double(costs.memory.arena) - activations -
                 frozen * kept_per_frozen(small, as_double(shard_ranks(small.parallel))) -
                 Elements{elements, std::min(elements, expert_elements(small) * as_double(m.layers))}.sum(
                     small.parallel, [&](double ranks) { return kept_per_element(small, ranks); }));
    made.per_element = costs.update / elements;
    return made;
}

QuickEstimator::ProfilePointer QuickEstimator::mixed(const RunConfig& config,
                                                     const std::vector<double>& parts)
{
    const ParallelConfig& p = config.parallel;
    const ProfilePointer more = profile(config, p.recompute);
    if (p.recompute_layers == 0 || p.recompute == Recompute::none)
        return more;
    const ProfilePointer less = profile(config, one_level_less(p.recompute));
    auto made = std::make_shared<Profile>(*more);
    for (std::size_t kind = 0; kind < made->costs.size(); ++kind)
        made->costs[kind] = more->costs[kind] * parts[kind] + less->costs[kind] * (1 - parts[kind]);
    made->beyond = std::max(more->beyond, less->beyond);
    return made;
}

QuickEstimator::Share QuickEstimator::share_of(const RunConfig& config, const Blocks& blocks)
{
    std::vector<double> parts(blocks.all.size(), 0);
    for (std::size_t kind = 0; kind < parts.size(); ++kind)
        if (blocks.all[kind] > 0)
            parts[kind] = blocks.recomputing[kind] / blocks.all[kind];
    return share_of(config, *mixed(config, parts), blocks.all);
}

const QuickEstimator::Transfers& QuickEstimator::transfers(const ParallelConfig& grid)
{
    const auto [at, added] = transfers_.try_emplace({degrees_of(grid), shard_ranks(grid), grid.order});
    if (added) {
        const Mesh mesh = mesh_of(grid);
        at->second.data = transfer_cost(data_axis, mesh, clock_);
        if (mesh.find(replica_axis) >= 0)
            at->second.replica = transfer_cost(replica_axis, mesh, clock_);
    }
    return at->second;
}

Seconds QuickEstimator::message(const RunConfig& config, double bytes) const
{
    const ParallelConfig& p = config.parallel;
    const bool between = clock_.node_of(stride_along(p, pipeline_axis) * (p.pipeline - 1)) > 0;
    return p.pipeline == 1 ? 0 : clock_.launch + clock_.latency(between) + bytes / clock_.link_rate(between);
}

QuickEstimator::Share QuickEstimator::share_of(const RunConfig& config, const Profile& profile,
                                               const Counts& counts)
{
    const ParallelConfig& p = config.parallel;
    Share share;
    share.cost = {0, 0, 0, 0, 0, 0};
    double elements = 0, frozen = 0, repeated = 0;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
        share.cost = share.cost + profile.costs[kind] * counts[kind];
        elements += profile.elements[kind] * counts[kind];
        frozen += profile.frozen[kind] * counts[kind];
        repeated += is_repeated(config.model, kind) ? counts[kind] : 0;
    }
    if (counts.front() > 0 && counts.back() > 0) {
        elements -= profile.shared;
        frozen -= profile.shared_frozen;
    }
    share.cost.message = message(config, profile.sent);
    const Elements parts{elements, std::min(elements, expert_elements(config) * repeated)};
    share.kept = parts.sum(p, [&](double ranks) { return kept_per_element(config, ranks); }) +
                 frozen * kept_per_frozen(config, as_double(shard_ranks(p)));
    share.cost.gradients =
        parts.sum(p, [&](double ranks) { return ranks > 1 ? passing_per_element(config) : 0; });

    const double runs = std::max(1.0, repeated), shards = as_double(shard_ranks(p)),
                 replicas = as_double(p.data * p.context) / shards;
    const bool zero = p.zero > 0 && shards > 1;
    share.transfers.runs = runs;
    const double sharded = parts.sum(p, [](double ranks) { return 1 / ranks; }), // elements
        travelling = parts.sum(p, [](double ranks) { return (ranks - 1) / ranks; });
    share.outside = profile.per_element * (zero ? sharded : elements);
    const double of_gradient = as_double(
                     p.reduce == GradientType::bf16 ? 2 : size_of(master_type(config.train.precision))),
                 of_copy = as_double(size_of(compute_type(config.train.precision)));
    const bool gathers = gathers_in_microbatches(p), reduces = reduces_in_microbatches(p);
    if (gathers && p.gather_every == GatherEvery::microbatch && p.pipeline > 1) // until the backward pass
        share.cost.activations +=
            parts.sum(p, [&](double ranks) { return ranks > 1 ? of_copy : 0; }) + of_copy * frozen;
    if (gathers) // two layers, and their gradients
        share.kept += 2 * ((of_copy + of_gradient) * elements + of_copy * frozen) / runs;
    if (p.data * p.context == 1)
        return share;
    const Transfers& along = transfers(p);
    // Of `bytes` that a rank sends, in all collectives.
    const auto transfer_seconds = [&](const TransferCost& cost, double bytes) {
        return runs * (cost.start + cost.messages) + bytes / cost.bytes_per_second;
    };
    const double forward = share.cost.forward,
                 backward = share.cost.input_gradient + share.cost.weight_gradient;
    const double gathered = travelling + (gathers ? frozen * (shards - 1) / shards : 0);
    const Seconds gather = zero ? transfer_seconds(along.data, of_copy * gathered) : 0,
                  reduce = transfer_seconds(along.data, (zero ? 1 : 2) * of_gradient * travelling);
    // Transfers take a part of the compute, but not while the rank only communicates.
    if (const Seconds pass = forward + backward; pass > 0)
        share.transfers.slows = along.data.share * std::max(0.0, 1 - share.cost.in_line / pass);
    const auto beyond = [&](Seconds transfers, Seconds compute) {
        return !p.overlap ? transfers : std::max(share.transfers.slows * transfers, transfers - compute);
    };
    const Seconds again = gathers && p.gather_every == GatherEvery::pass ? gather : 0;
    if (gathers)
        share.cost.forward += beyond(gather, forward);
    else if (zero)
        (p.overlap ? share.transfers.gather : share.outside) += gather;
    share.cost.input_gradient += beyond(again + (reduces ? reduce : 0), backward);
    if (reduces)
        share.outside += reduce / runs;
    Seconds once = reduces ? 0 : reduce;
    if (zero && replicas > 1)
        once +=
            transfer_seconds(along.replica.value(), 2 * of_gradient * sharded * (replicas - 1) / replicas);
    (p.overlap && !reduces ? share.transfers.reduce : share.outside) += once;
    if (!clock_.is_device) { // a core copies
        const double sent = (of_gradient + (zero ? of_copy : of_gradient)) * travelling;
        share.outside += sent / clock_.copy_bytes_per_second;
    }
    return share;
}

const PipelineOrder& QuickEstimator::order_of(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    OrderKey key{p.schedule, p.pipeline, p.chunks, microbatch_count(config)};
    if (order_.ranks.empty() || key != order_key_) {
        order_ = training_order(config);
        order_key_ = std::move(key);
    }
    return order_;
}

QuickEstimate QuickEstimator::estimate(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    if (p.pipeline > 1 && config.model.is_program()) // its blocks differ too much for formulas
        return played(config, order_of(config));
    const Counts counts = counts_of(config.model);
    const ProfilePointer mixture = mixed(
        config, Counts(counts.size(), as_double(p.recompute_layers) / as_double(config.model.repeated())));
    const Profile& profile = *mixture;
    const Share whole = share_of(config, profile, counts);
    const double microbatches = as_double(microbatch_count(config));
    // Of one microbatch, without others between its passes.
    const auto added = [](const Share& share) {
        StepTransfers transfers;
        const Seconds end = seconds_of(share.cost);
        transfers.gather(share.transfers, 0, share.cost.forward);
        transfers.reduce(share.transfers, end, end - share.cost.forward);
        return transfers.added(end) + share.outside;
    };
    if (p.pipeline == 1)
        return {microbatches * seconds_of(whole.cost) + added(whole),
                whole.kept + whole.cost.activations + profile.beyond};
    const double layers = as_double(config.model.layers), ranks = as_double(p.pipeline);
    const ScheduleKind kind = schedule_called(p.schedule).value_or(ScheduleKind::one_f_one_b); // or a file
    const double chunks = as_double(stages_per_rank(kind, p.chunks));
    const StageCost &first_block = profile.costs[0], &layer = profile.costs[1],
                    &last_block = profile.costs[2];
    const double most = chunks > 1 ? layers / ranks
                                   : layers_of_longest(layers, p.pipeline, seconds_of(layer),
                                                       seconds_of(first_block), seconds_of(last_block));
    const Share middle = share_of(config, profile, {0, most, 0});
    const StageCost all = layer * layers + first_block + last_block;
    const Seconds longest =
        std::max({seconds_of(middle.cost), seconds_of(last_block), seconds_of(all) / ranks});
    const StageCost mean = all * (1 / ranks);
    const Seconds bubble = bubble_of(kind, chunks, ranks - 1, mean);
    const Seconds messages = 2 * (ranks - 1) * middle.cost.message;
    // Of schedules with weight gradients as late as this, some rank has as many waiting.
    const bool waits =
        kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2 || kind == ScheduleKind::zb_v;
    // Buffers of messages have as many slots: those of the first rank's stages, to and from other ranks.
    const double messages_of_stages = (2 * chunks - (is_v_shaped(kind) ? 2 : 1)) * profile.sent;
    const double kept_in_flight =
        in_flight(kind, ranks, chunks, microbatches) *
        (std::max(middle.cost.activations, waits ? middle.cost.waiting : 0) + messages_of_stages);
    const Share first = share_of(config, profile, {1, std::min(most, layers / ranks), 0});
    // One stage after the other ends its backward passes.
    const bool in_turn =
        kind == ScheduleKind::breadth_first || (kind == ScheduleKind::interleaved && microbatches <= ranks);
    const double passed = in_turn ? first.cost.gradients * (1 - 1 / chunks) : 0;
    return {microbatches * longest + bubble + messages + added(middle),
            std::max(first.kept - passed + kept_in_flight,
                     middle.kept + middle.cost.activations + profile.beyond)};
}

const StageConfig& QuickEstimator::stages_for(const RunConfig& config, const PipelineShape& shape)
{
    const std::tuple key(shape.ranks, shape.chunks, shape.v_shaped);
    auto known = stages_.find(key);
    if (known == stages_.end()) {
        if (!whole_)
            whole_ = graph_of_stages(config);
        known = stages_.emplace(key, stages_of(*whole_, shape, config.parallel.stage_layers)).first;
    }
    return known->second;
}

Seconds QuickEstimator::least_step(const RunConfig& config, Recompute recompute)
{
    const ParallelConfig& p = config.parallel;
    const ProfilePointer profile = this->profile(config, recompute);
    const double microbatches = as_double(microbatch_count(config));
    const auto kind = schedule_called(p.schedule);
    if (p.pipeline == 1 || !kind || !config.model.is_program()) {
        Seconds all = 0;
        const Counts counts = counts_of(config.model);
        for (std::size_t k = 0; k < counts.size(); ++k)
            all += counts[k] * seconds_of(profile->costs[k]);
        return microbatches * all / as_double(p.pipeline);
    }
    const StageConfig& stages =
        stages_for(config, {p.pipeline, stages_per_rank(*kind, p.chunks), is_v_shaped(*kind)});
    // Of the rank's stages; of those before its first stage, which work for the first microbatch before it,
    // and for the last one after it.
    struct Load {
        Seconds all = 0, awaited = 0, before = 0, before_and_after = 0;
    };
    std::map<int, Load> loads;
    Load passed;
    int stage = -1;
    for (std::size_t b = 0; b < stages.stage_of_block.size(); ++b) {
        const int rank = stages.rank_of_block(static_cast<int>(b));
        const StageCost& cost = profile->costs[kind_of(config.model, b)];
        if (stages.stage_of_block[b] != std::exchange(stage, stages.stage_of_block[b]))
            loads.try_emplace(rank, Load{0, 0, passed.before, passed.before_and_after});
        const Seconds awaited = seconds_of(cost) - (splits_backward(*kind) ? cost.weight_gradient : 0);
        loads[rank].all += seconds_of(cost);
        loads[rank].awaited += awaited;
        passed.before += cost.forward;
        passed.before_and_after += awaited;
    }
    Seconds least = 0;
    for (const auto& [rank, load] : loads)
        least = std::max({least, load.before + microbatches * load.all,
                          load.before_and_after + microbatches * load.awaited});
    return least;
}

QuickEstimate QuickEstimator::played(const RunConfig& config, const PipelineOrder& order)
{
    if (config.parallel.pipeline == 1)
        return estimate(config);
    const ParallelConfig& p = config.parallel;
    const PipelineShape& shape = order.shape;
    const StageConfig& stages = stages_for(config, shape);
    const RecomputeConfig again{false, p.recompute, p.recompute_layers, false, config.model.is_program()};
    const Counts none(counts_of(config.model).size(), 0);
    std::vector<Blocks> of_stage(stages.rank_of_stage.size(), {none, none}),
        of_rank(static_cast<std::size_t>(shape.ranks), {none, none});
    const int last = static_cast<int>(stages.stage_of_block.size()) - 1;
    for (int b = 0; b <= last; ++b) {
        const std::size_t kind = kind_of(config.model, static_cast<std::size_t>(b));
        const bool recomputes = recomputed_in(b, again, last) == p.recompute;
        const int stage = stages.stage_of_block[static_cast<std::size_t>(b)];
        for (Blocks* blocks : {&of_stage[static_cast<std::size_t>(stage)],
                               &of_rank[static_cast<std::size_t>(stages.rank_of_block(b))]}) {
            ++blocks->all[kind];
            blocks->recomputing[kind] += recomputes ? 1 : 0;
        }
    }
    std::map<Blocks, Share> shares;
    const auto share = [&](const Blocks& blocks) -> const Share& {
        const auto [known, is_new] = shares.try_emplace(blocks);
        if (is_new)
            known->second = share_of(config, blocks);
        return known->second;
    };
    const ProfilePointer profile = mixed(config, none);
    OrderCosts costs;
    for (const Blocks& blocks : of_stage)
        costs.push_back(share(blocks).cost);
    for (std::size_t next = 1; next < costs.size(); ++next)
        if (stages.rank_of_stage[next] != stages.rank_of_stage[next - 1])
            for (StageCost* cost : {&costs[next - 1], &costs[next]}) // their messages have as many slots
                cost->activations += profile->sent;
    const std::optional<Playback> played = play(order, costs);
    TRV_CHECK(played, "the order of ", config.parallel.schedule, " waits forever");
    std::vector<double> passing(of_rank.size(), 0);
    for (std::size_t stage = 0; stage < of_stage.size(); ++stage)
        passing[static_cast<std::size_t>(stages.rank_of_stage[stage])] += costs[stage].gradients;
    QuickEstimate made;
    const double beyond = profile->beyond;
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
        const Share& own = share(of_rank[rank]);
        const std::vector<Span>& spans = played->spans[rank];
        const Seconds end = spans.empty() ? 0 : spans.back().end;
        StepTransfers transfers;
        const RankOrder& tasks = order.ranks[rank];
        const auto transfers_of = [&](std::size_t i) -> const StageTransfers& {
            return share(of_stage[static_cast<std::size_t>(tasks[i].stage)]).transfers;
        };
        for (const std::size_t i : ends_of_stages(tasks, shape.chunks, false))
            transfers.gather(transfers_of(i), spans[i].begin, spans[i].end - spans[i].begin);
        for (const std::size_t i : ends_of_stages(tasks, shape.chunks, true))
            transfers.reduce(transfers_of(i), spans[i].end, spans[i].end - spans[i].begin);
        made.step = std::max(made.step, end + transfers.added(end) + own.outside);
        made.bytes = std::max(made.bytes, own.kept - passing[rank] + played->peak[rank] +
                                              (of_rank[rank].all.back() > 0 ? beyond : beyond / 4));
    }
    return made;
}

} // namespace trivium
