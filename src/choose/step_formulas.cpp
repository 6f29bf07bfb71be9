#include "choose/step_formulas.hpp"

#include "compile/graphs.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

double expert_elements(const RunConfig& c)
{
    const ModelConfig& m = c.model;
    if (m.is_program() || m.experts == 0)
        return 0;
    return as_double(m.layers - std::min(m.dense_layers, m.layers)) / as_double(m.layers) *
           as_double(m.experts / c.parallel.expert * (m.gated ? 3 : 2)) * as_double(m.dim * m.expert_dim) /
           as_double(c.parallel.tensor);
}

namespace {

double gradient_bytes(const RunConfig& c)
{
    return c.parallel.accumulate == GradientType::bf16 ? 2
                                                       : as_double(size_of(master_type(c.train.precision)));
}

/// Whether a rank keeps whole gradients. ZeRO reduces those of a single microbatch as soon as they are there.
bool keeps_gradients(const RunConfig& c)
{
    return !reduces_in_microbatches(c.parallel) && (c.parallel.zero == 0 || microbatch_count(c) > 1);
}

} // namespace

double trained_per_element(const RunConfig& c)
{
    if (c.parallel.offload == Offload::optimizer)
        return 0;
    const Optimizer& optimizer = optimizer_row(c.train.optimizer);
    const double states =
        as_double(static_cast<i64>(find_op(optimizer.matrices)->states.size()) + (c.train.ema > 0 ? 1 : 0));
    return (1 + states) * as_double(size_of(master_type(c.train.precision)));
}

double kept_per_element(const RunConfig& c, double ranks)
{
    const ParallelConfig& p = c.parallel;
    const double master = as_double(size_of(master_type(c.train.precision))),
                 compute = as_double(size_of(compute_type(c.train.precision)));
    const bool shards = shard_ranks(p) > 1 && p.zero > 0;
    const double part = shards ? 1 / ranks : 1;
    const bool offload = p.offload == Offload::optimizer,
               gathers = p.zero == 3 && shards && ranks > 1 && p.gather_every != GatherEvery::step,
               // Otherwise a copy is there only while a pass needs it, or is in flight.
        lasts = p.gather_every == GatherEvery::microbatch && p.pipeline == 1;
    const double copy = gathers ? (lasts ? compute : 0) : compute < master || shards || offload ? compute : 0;
    return trained_per_element(c) * part + copy + gradient_bytes(c) * (keeps_gradients(c) ? 1 : part);
}

double passing_per_element(const RunConfig& c)
{
    return c.parallel.zero > 0 && shard_ranks(c.parallel) > 1 && keeps_gradients(c) ? gradient_bytes(c) : 0;
}

double kept_per_frozen(const RunConfig& c, double ranks)
{
    return as_double(size_of(compute_type(c.train.precision))) /
           (gathers_in_microbatches(c.parallel) ? ranks : 1);
}

Seconds seconds_of(const StageCost& cost)
{
    return cost.forward + cost.input_gradient + cost.weight_gradient;
}

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

std::vector<std::size_t> ends_of_stages(const RankOrder& tasks, i64 stages, bool last)
{
    std::vector<std::size_t> found;
    std::set<i64> seen;
    for (std::size_t n = 0; n < tasks.size() && std::ssize(seen) < stages; ++n)
        if (const std::size_t i = last ? tasks.size() - 1 - n : n; seen.insert(tasks[i].stage).second)
            found.push_back(i);
    if (last)
        std::ranges::reverse(found);
    return found;
}

void StepTransfers::gather(const StageTransfers& stage, Seconds begin, Seconds pass)
{
    const Seconds last = stage.gather / stage.runs;
    late_ = std::max(
        {late_, gathered_ + last - begin, gathered_ + stage.gather - begin - pass * (1 - 1 / stage.runs)});
    gathered_ += stage.gather;
    all_ += stage.gather;
    slowed_ += stage.slows * stage.gather;
}

void StepTransfers::reduce(const StageTransfers& stage, Seconds end, Seconds pass)
{
    const Seconds first = end - pass * (1 - 1 / stage.runs);
    reduced_ = std::max(end + stage.reduce / stage.runs, std::max(reduced_, first) + stage.reduce);
    all_ += stage.reduce;
    slowed_ += stage.slows * stage.reduce;
}

Seconds StepTransfers::added(Seconds end) const
{
    const Seconds seen = late_ + std::max(0.0, reduced_ - end);
    return all_ > 0 ? seen + slowed_ * std::max(0.0, 1 - seen / all_) : seen;
}

} // namespace trivium
