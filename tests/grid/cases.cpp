#include "grid/cases.hpp"

#include "base/check.hpp"
#include "base/covering.hpp"
#include "grid/adapter_reference.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace trivium::grids {

const std::vector<ParallelConfig>& all_grids()
{
    static const std::vector<ParallelConfig> all = [] {
        std::vector<ParallelConfig> made;
        for (const i64 ranks : {1, 2, 4, 6, 8})
            for (ParallelConfig& grid : grids_of(ranks))
                if (grid.context == 1) // share_sequences()
                    made.push_back(std::move(grid));
        return made;
    }();
    return all;
}

std::vector<int> factor_levels(bool f64)
{
    const int grids = static_cast<int>(all_grids().size());
    return f64 ? std::vector<int>{grids, 4, 4, 4, 2, 2, 3, 3, 4, 2, 3, 2, 3, 2, 2, 3, 2, 4}
               : std::vector<int>{grids, 2, 4, 4, 2, 2, 3, 2, 2, 2, 3, 2, 3, 2, 2, 4, 2, 2};
}

namespace {

/// Microbatches of a data rank's `share` of sequences: one, a few, many.
i64 microbatches(i64 share, int level)
{
    if (level == 0)
        return 1;
    i64 few = 2, many = std::min<i64>(share, 12);
    while (share % few != 0)
        ++few;
    while (share % many != 0)
        --many;
    return level == 1 ? few : many;
}

/// Four levels, so that the covering array stays small: one stage per rank, with whole backward passes or
/// split; several, in turns or in a V. The schedules of a level alternate with the other factors.
std::pair<const char*, i64> schedule_of(const std::vector<int>& levels)
{
    static constexpr std::pair<const char*, i64> all[4][4] = {
        {{"1f1b", 1}, {"1f1b", 1}, {"gpipe", 1}, {"1f1b", 1}},
        {{"zb-h1", 1}, {"zb-h2", 1}, {"zb-h1", 1}, {"zb-h2", 1}},
        {{"interleaved", 2}, {"interleaved", 3}, {"breadth-first", 2}, {"breadth-first", 3}},
        {{"zb-v", 2}, {"v-half", 2}, {"v-min", 2}, {"dualpipe-v", 2}}};
    const int turn = levels[f_grid] + levels[f_family] + levels[f_zero] + levels[f_heads] +
                     levels[f_microbatches] + levels[f_bucket] + levels[f_often];
    return all[levels[f_schedule]][turn % 4];
}

reference::Model model_of(const std::vector<int>& levels, const ParallelConfig& grid)
{
    const i64 t = grid.tensor;
    const int uneven = t == 1  ? 3
                       : t % 2 ? static_cast<int>(t)
                               : static_cast<int>(t) + 1; // 3 heads for 2 ranks, 5 for 4, …
    reference::Model m;
    m.llama = levels[f_family] != 1;
    m.tied = levels[f_tied] == 1;
    m.layers = static_cast<int>(std::max<i64>(3, schedule_of(levels).second * grid.pipeline - 2));
    const int heads = levels[f_heads];
    m.kv_heads = heads < 2 ? uneven : t == 3 || t > 4 ? 2 : 1;
    m.heads = m.kv_heads * (heads == 0 ? 1 : heads == 1 ? 2 : t == 2 ? 3 : t <= 4 ? 4 : uneven);
    m.dim = 2 * m.heads;
    m.ffn = 11;
    m.vocab = m.llama ? 11 : 13;
    m.seq = t <= 4 ? 5 : t == 6 ? 7 : 9;
    return m;
}

} // namespace

Case case_of(const std::vector<int>& levels)
{
    const ParallelConfig& grid = all_grids()[static_cast<std::size_t>(levels[f_grid])];
    Case c;
    c.model = model_of(levels, grid);
    // Two levels, so that the covering array stays small: they alternate between the grids.
    using enum OptionSet;
    constexpr OptionSet mixes[2][4] = {{post, sandwich, experts, sandwich},
                                       {parallel, experts, groups, sandwich}};
    if (levels[f_family] >= 2)
        c.mixed = mixes[levels[f_family] - 2][levels[f_grid] % 4];
    c.rows = 24;
    const i64 share = c.rows / batch_ranks(grid);
    c.micro_batch = share / microbatches(share, levels[f_microbatches]);
    ParallelConfig& p = c.parallel;
    p = grid;
    std::tie(p.schedule, p.chunks) = schedule_of(levels);
    p.zero = levels[f_zero];
    p.sequence = levels[f_sequence] == 0;
    // Four levels, so that the covering array stays small: two of them alternate between the grids.
    const bool other = levels[f_grid] % 2 == 1;
    const char* const buckets[] = {"auto", "none", other ? "greedy" : "block", other ? "global" : "700"};
    p.bucket = buckets[levels[f_bucket]];
    p.overlap = levels[f_overlap] == 0;
    if (p.zero == 3)
        p.gather_every = levels[f_often] == 0   ? GatherEvery::pass
                         : levels[f_often] == 1 ? GatherEvery::microbatch
                                                : GatherEvery::step;
    if (p.zero >= 2)
        p.reduce_every = levels[f_often] == 2 ? ReduceEvery::step : ReduceEvery::microbatch;
    if (levels[f_group] == 1 && p.zero > 0)
        p.shard = p.data % 4 == 0 ? p.data / (p.zero == 2 ? 4 : 2) : p.data % 3 == 0 ? 3 : p.data;
    const Recompute recompute[] = {Recompute::none, Recompute::selective, Recompute::full};
    p.recompute = recompute[levels[f_recompute]];
    if (levels[f_tile] == 1 && p.zero == 3)
        p.tile = 300; // two to six tiles of most matrices
    p.offload = levels[f_offload] == 1 ? Offload::optimizer : Offload::none;
    // Not a factor: which of the others decide about it changes from case to case.
    const int parity = levels[f_grid] / 2 + levels[f_zero] + levels[f_overlap] + levels[f_recompute] +
                       levels[f_sequence] + levels[f_microbatches];
    if (p.offload == Offload::none && parity % 2 == 1)
        p.update = UpdateMode::post_validated;
    c.counts_all = p.update == UpdateMode::post_validated; // otherwise each of its steps is done twice
    c.optimizer = levels[f_optimizer] == 0 ? OptimizerKind::adamw : OptimizerKind::muon;
    return c;
}

namespace {

/// Lets some of the data ranks share sequences instead, in a way that changes from level to level.
void share_sequences(Case& c, const std::vector<int>& levels)
{
    ParallelConfig& p = c.parallel;
    const int turn = levels[f_bucket] + levels[f_recompute] + levels[f_zero] + levels[f_grid];
    const i64 context = p.data % 4 == 0 && turn % 4 == 0 ? 4 : p.data % 3 == 0 ? 3 : 2;
    if (p.data % context != 0 || turn % 2 != 0)
        return;
    p.context = context;
    p.context_form = turn / 2 % 2 == 0 ? ContextForm::ring : ContextForm::gather;
    p.data /= context;
    if (p.shard > 0 && p.data % p.shard != 0)
        p.shard = 0;
    const i64 heads = c.model.kv_heads < p.tensor ? c.model.kv_heads : c.model.kv_heads / p.tensor;
    for (i64 n = 2; n <= heads; ++n)
        if (context % n == 0 && levels[f_overlap] == 0)
            p.context_heads = n;
    c.model.seq = std::max<int>(c.model.seq, static_cast<int>(2 * context * (p.sequence ? p.tensor : 1)) + 1);
}

/// What ranks of mixtures of experts can share, and in half of the cases shared experts.
void share_experts(Case& c, int turn)
{
    if (c.mixed != OptionSet::experts && c.mixed != OptionSet::groups)
        return;
    ParallelConfig& p = c.parallel;
    if (p.context > 1 || c.packing) // a capacity is of a sequence, on one rank
        c.mixed = OptionSet::experts;
    c.model.seq = static_cast<int>(round_up(c.model.seq, p.context));
    if (turn % 2 == 0 && group_ranks(p) * p.context % 2 == 0 && (p.context == 1 || p.context % 2 == 0))
        p.expert = 2;
}

/// Frozen parameters, adapters, or adapters with magnitudes, in a way that changes from level to level.
void train_a_part(Case& c, const std::vector<int>& levels)
{
    const int turn = levels[f_grid] + levels[f_schedule] + levels[f_heads] + levels[f_bucket] +
                     levels[f_offload] + levels[f_optimizer];
    TrainedParameters& trained = c.trained;
    if (levels[f_trained] == 0)
        return;
    if (levels[f_trained] == 3) { // the first stages, the last ones, or parts of all layers
        const std::vector<std::string> patterns[] = {
            {"embed.*", "layers.0.*"}, {"layers.1.*", "layers.2.*", "final_norm.*"}, {"*.attn.*", "*norm*"}};
        trained.freeze = patterns[turn % 3];
        return;
    }
    LoraConfig& lora = trained.lora;
    lora.rank = 2 + turn % 2;
    lora.alpha = 4.5;
    lora.rank_stable = turn % 2 == 0;
    lora.magnitudes = levels[f_trained] == 2;
    if (turn % 3 == 1)
        lora.targets = {"layers.0.attn.*", "layers.*.down.weight", "layers.*.up.weight"};
    else if (turn % 3 == 2 && !lora.magnitudes && !c.model.tied)
        lora.targets = {"*"};
    if (turn % 4 == 1)
        lora.train = {"final_norm.*", "layers.1.*norm*"};
    if (turn % 5 < 2 && !c.packing) // it depends on the place in a sequence
        lora.dropout = 0.25;
}

/// In two thirds of the cases with several axes, another order of the mesh.
void reorder(ParallelConfig& p, int turn)
{
    const std::vector<std::string> orders[] = {
        {}, {"pipeline", "data", "tensor"}, {"tensor", "data", "pipeline"}, {"tensor", "pipeline", "data"},
        {}, {"data", "tensor", "pipeline"}};
    p.order = orders[turn % 6];
}

/// The case in f64, perhaps of documents. With dropout, z-loss and label smoothing in a part that changes
/// from level to level: in two thirds of the others, and in a third of those of documents, without dropout
/// there, which depends on the place in a sequence.
Case f64_case(const std::vector<int>& levels)
{
    Case c = case_of(levels);
    const int turn = levels[f_grid] + levels[f_schedule] + levels[f_zero] + levels[f_sequence] +
                     levels[f_microbatches] + levels[f_recompute];
    if (levels[f_variant] > 0) {
        c.packing = static_cast<SamplePacking>(levels[f_variant] - 1);
        c.model.seq += 6; // documents longer than windows and chunks
    }
    if ((turn % 3 == 0) == c.packing.has_value())
        c.model = runs::regularised(c.model);
    if (c.packing)
        c.model.dropout = 0;
    if (c.mixed == OptionSet::sandwich && levels[f_family] == 3)
        c.mixed = OptionSet::latent;
    share_sequences(c, levels);
    share_experts(c, turn);
    train_a_part(c, levels);
    reorder(c.parallel, turn + levels[f_bucket] + levels[f_often]);
    return c;
}

} // namespace

std::vector<Case> product_cases()
{
    std::vector<int> levels = factor_levels(true);
    levels[f_family] = 2;
    std::vector<Case> all;
    for (std::vector<int> row :
         full_product(std::vector<int>(levels.begin(), levels.begin() + f_microbatches))) {
        const auto n = static_cast<int>(all.size());
        if (row[f_family] == 0) // or options of several families
            row[f_family] = n / 29 % 3 == 0 ? 0 : 1 + n / 29 % 3;
        row.insert(row.end(), {n % 3, n / 3 % 4, n / 5 % 2, n / 7 % 3, n / 13 % 2, n / 11 % 3, n / 23 % 2,
                               n / 17 % 2, n / 31 % 3, n / 19 % 2, n / 37 % 4});
        all.push_back(f64_case(row));
    }
    return all;
}

const std::vector<Case>& covering_cases(bool f64)
{
    static std::map<bool, std::vector<Case>> known; // making an array takes seconds
    const auto [at, unknown] = known.try_emplace(f64);
    std::vector<Case>& all = at->second;
    if (!unknown)
        return all;
    for (const std::vector<int>& row : covering_array(factor_levels(f64))) {
        Case c = f64 ? f64_case(row) : case_of(row);
        if (!f64) {
            c.precision = row[f_variant] >= 2 ? Precision::bf16 : Precision::f32;
            c.parallel.reduce = row[f_variant] == 1 ? GradientType::bf16 : GradientType::f32;
            c.parallel.accumulate = row[f_variant] == 3 ? GradientType::bf16 : GradientType::f32;
            if (std::vector<int> part = row; row[f_trained] == 1) {
                part[f_trained] = 1 + row[f_grid] % 3;
                train_a_part(c, part);
            }
            c.counts_all = false; // as when tests/golden/losses.txt was written
            c.steps = 20;
            c.lr = 1e-3;
            // Larger heads and smaller weights keep bf16's rounding errors below the tolerance.
            c.model.dim *= 2;
            c.spread = 0.1;
        }
        all.push_back(c);
    }
    return all;
}

const Outcome& alone_outcome(const Case& c)
{
    static std::map<std::string, Outcome> known;
    const Case one = alone(c);
    const auto [at, added] = known.try_emplace(str(one.text(), one.steps));
    if (!added)
        return at->second;
    at->second = train_on_threads(one);
    if (c.precision == Precision::f64 && !(c.mixed && c.model.z_loss > 0) && // which only one reference has
        c.trained.lora.dropout == 0) {
        reference::Result expected = reference_of(one, at->second.initial);
        if (c.optimizer == OptimizerKind::muon) // collect_gradients()
            std::erase_if(expected.gradients,
                          [](const auto& gradient) { return gradient.first.ends_with(".balance"); });
        const double difference = largest_difference(at->second.gradients, expected.gradients);
        TRV_CHECK(difference < 1e-9, one.text(), ": gradients of one rank differ from the reference's by ",
                  difference);
        TRV_CHECK(std::abs(at->second.losses[0] * expected.tokens / expected.loss_sum - 1) < 1e-9, one.text(),
                  ": loss ", at->second.losses[0]);
    }
    return at->second;
}

} // namespace trivium::grids
