#include "check/cases.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/covering.hpp"
#include "base/rng.hpp"
#include "compile/describe.hpp"
#include "config/option_sets.hpp"
#include "config/schedules.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

namespace {

constexpr i64 largest_degree = 8; ///< of all axes but data: larger ones repeat the same communication

std::vector<i64> degrees_without_data(const ParallelConfig& grid)
{
    std::vector<i64> degrees;
    for (const GridAxis& axis : grid_axes)
        if (axis.degree != &ParallelConfig::data)
            degrees.push_back(grid.*axis.degree);
    return degrees;
}

/// Every grid of `ranks` ranks with degrees of at most largest_degree, in the order of the degrees. Context
/// ranks are a choice.
std::vector<ParallelConfig> checked_grids(i64 ranks)
{
    std::vector<ParallelConfig> all = grids_of(ranks);
    std::erase_if(all, [](const ParallelConfig& grid) {
        const std::vector<i64> degrees = degrees_without_data(grid);
        return grid.context > 1 || *std::max_element(degrees.begin(), degrees.end()) > largest_degree;
    });
    std::ranges::sort(all, {}, degrees_without_data);
    return all;
}

/// A key with its possible settings.
struct Choice {
    struct Level {
        std::string name;
        std::function<void(RunConfig&)> set;
        bool blurs = false; ///< hides small errors (bf16)
    };
    std::string key;
    std::vector<Level> levels;
    std::function<bool(const ParallelConfig&)> matters{}; ///< on which grids it has an effect; empty: on all
    int always = 0; ///< a longer check tests all combinations of so many first levels of these

    bool may_blur() const
    {
        return std::ranges::any_of(levels, [](const Level& level) { return level.blurs; });
    }
};

/// The default setting of a key of `table` comes first.
template <class Table, class Enum>
Choice enum_choice(const std::string& key, Enum usual, Table RunConfig::*table, Enum Table::*member)
{
    Choice choice{key, {}};
    for (std::size_t i = 0; i < names_of_enum<Enum>.size(); ++i)
        choice.levels.push_back({std::string(names_of_enum<Enum>[i]),
                                 [=](RunConfig& c) { c.*table.*member = static_cast<Enum>(i); }});
    std::swap(choice.levels.front(), choice.levels[static_cast<std::size_t>(usual)]);
    return choice;
}

template <class T, class Set>
Choice list_choice(const std::string& key, const std::vector<T>& values, Set set)
{
    Choice choice{key, {}};
    for (const T& value : values)
        choice.levels.push_back({str(std::boolalpha, value), [=](RunConfig& c) { set(c, value); }});
    return choice;
}

/// Sets a key of [parallel].
template <class T>
auto setting(T ParallelConfig::*member)
{
    return [=](RunConfig& c, const auto& value) { c.parallel.*member = value; };
}

/// Splits a data rank's share into one, a few or many microbatches. After parallel and global_batch.
void set_microbatches(RunConfig& c, int level)
{
    const i64 share = c.train.global_batch / batch_ranks(c.parallel);
    i64 count = level == 0 ? 1 : level == 1 ? std::min<i64>(2, share) : std::min<i64>(share, 12);
    while (share % count != 0)
        count += level == 1 ? 1 : -1;
    c.train.micro_batch = share / count;
}

/// Three layers, or as many as the stages need; heads, columns, vocabulary and tokens that do not divide
/// evenly over the ranks. Llama's heads share keys, so more tensor ranks than key-value heads shard the
/// queries; GPT-2's embeddings are tied.
void set_model(RunConfig& c)
{
    const i64 t = c.parallel.tensor;
    const bool llama = c.model.family != Family::gpt2, small = t <= 4;
    const i64 chunks = chunks_of(*schedule_called(c.parallel.schedule)).usual;
    c.model.layers = std::max<i64>(3, chunks * c.parallel.pipeline - 2);
    c.model.kv_heads = !llama ? (small ? 5 : 9) : small ? 2 : 1;
    c.model.heads = llama && small ? 10 : c.model.kv_heads * (llama ? 9 : 1);
    c.model.dim = 4 * c.model.heads;
    c.model.ffn_dim = 13;
    c.model.vocab = llama ? 17 : 19;
    c.model.seq = small ? 6 : 9;
    if (const i64 context = c.parallel.context; context > 1)
        c.model.seq = std::max(c.model.seq, 2 * context * t + 1);
    if (c.model.experts > 0) { // as many ranks as can share them, and what context ranks can
        c.parallel.expert = std::gcd(c.model.experts, group_ranks(c.parallel) * c.parallel.context);
        if (c.train.precision == Precision::bf16) // whose rounding decides between nearly equal scores
            c.train.precision = Precision::f32;
        c.model.seq = round_up(c.model.seq, c.parallel.context);
        c.model.expert_capacity = c.parallel.context > 1 ? 0 : c.model.expert_capacity;
    }
    c.model.tied_embeddings = !llama;
    if (!c.parallel.overlap) // alternates with it, so that it adds no trainings
        c.parallel.order = {"tensor", "pipeline", "data"};
}

/// All choices except the grid; those that blur come first. The number of microbatches depends on the grid.
std::vector<Choice> choices()
{
    const ParallelConfig usual;
    const auto reduces_gradients = [](const ParallelConfig& g) { return gradient_ranks(g) > 1; };
    const auto shares_sequences = [](const ParallelConfig& g) { return g.data % 2 == 0; };
    const auto has_data_ranks = [](const ParallelConfig& g) { return g.data > 1; };
    const auto has_stages = [](const ParallelConfig& g) { return g.pipeline > 1; };
    std::vector<Choice> all;
    const auto add = [&](Choice choice) -> Choice& { return all.emplace_back(std::move(choice)); };

    constexpr auto parallel = &RunConfig::parallel;
    add(enum_choice("train.precision", Precision::f32, &RunConfig::train, &TrainConfig::precision)).always =
        static_cast<int>(names_of_enum<Precision>.size());
    add(enum_choice("parallel.reduce", usual.reduce, parallel, &ParallelConfig::reduce)).matters =
        reduces_gradients;
    add(enum_choice("parallel.accumulate", usual.accumulate, parallel, &ParallelConfig::accumulate));
    for (Choice& choice : all)
        for (Choice::Level& level : choice.levels)
            level.blurs = level.name == name_of(Precision::bf16);

    add(list_choice<i64>("parallel.context", {1, 2}, [](RunConfig& c, const i64& context) {
        if (c.parallel.data % context == 0) {
            c.parallel.context = context;
            c.parallel.data /= context;
        }
    })).matters = shares_sequences;
    Choice& zero = add(list_choice<i64>("parallel.zero", {0, 1, 2, 3}, setting(&ParallelConfig::zero)));
    zero.matters = has_data_ranks;
    zero.always = static_cast<int>(zero.levels.size());
    Choice& schedule = add(list_choice<std::string>(
        "parallel.schedule", {"1f1b", "gpipe", "interleaved", "zb-v"}, setting(&ParallelConfig::schedule)));
    schedule.matters = has_stages;
    schedule.always = static_cast<int>(schedule.levels.size());
    Choice& family = add({"model.family", {}});
    for (std::size_t i = 0; i < names_of_enum<OptionSet>.size(); ++i) {
        const auto set = static_cast<OptionSet>(i);
        if (set !=
            OptionSet::groups) // alternates with the other mixture of experts, so that it adds no trainings
            family.levels.push_back({std::string(name_of(set)), [=](RunConfig& c) {
                                         const bool groups =
                                             set == OptionSet::experts && c.parallel.zero % 2 == 1;
                                         set_options(c.model, groups ? OptionSet::groups : set);
                                     }});
    }
    family.always = 2;                                 // the others are mixes of families
    const auto without_automatic = [](Choice choice) { // implied by the others
        std::erase_if(choice.levels, [](const Choice::Level& level) { return level.name == "auto"; });
        return choice;
    };
    add(without_automatic(enum_choice("parallel.context_form", ContextForm::gather, parallel,
                                      &ParallelConfig::context_form)))
        .matters = shares_sequences;
    add(without_automatic(
        enum_choice("parallel.recompute", usual.recompute, parallel, &ParallelConfig::recompute)));
    add(without_automatic(
            enum_choice("parallel.gather_every", GatherEvery::pass, parallel, &ParallelConfig::gather_every)))
        .matters = has_data_ranks;
    add(without_automatic(enum_choice("parallel.reduce_every", ReduceEvery::microbatch, parallel,
                                      &ParallelConfig::reduce_every)))
        .matters = has_data_ranks;
    add(list_choice<i64>("parallel.shard", {0, 2}, [](RunConfig& c, const i64& group) {
        c.parallel.shard = c.parallel.data % 2 == 0 ? group : 0;
    })).matters = [](const ParallelConfig& g) { return g.data > 2 && g.data % 2 == 0; };
    add(list_choice<i64>("parallel.tile", {0, 300}, setting(&ParallelConfig::tile))).matters = has_data_ranks;
    Choice optimizer =
        enum_choice("train.optimizer", OptimizerKind::adamw, &RunConfig::train, &TrainConfig::optimizer);
    std::erase_if(optimizer.levels, [](const Choice::Level& level) { // whose grids would not agree
        return std::any_of(optimizers.begin(), optimizers.end(),
                           [&](const Optimizer& o) { return o.name == level.name && !o.continuous; });
    });
    add(std::move(optimizer));
    add(enum_choice("data.attention", SampleAttention::causal, &RunConfig::data, &DataConfig::attention));
    // One key for all of them, so that it adds few trainings.
    add(list_choice<bool>("regularisers", {false, true}, [](RunConfig& c, const bool& on) {
        c.model.dropout = on ? 0.2 : 0;
        c.train.z_loss = on ? 0.01 : 0;
        c.train.label_smoothing = on ? 0.1 : 0;
        c.train.balance_loss = on ? 0.1 : 0;
        c.train.router_z_loss = on ? 0.01 : 0;
    }));
    if (!computes_on_device()) // where training refuses it
        add(enum_choice("parallel.offload", usual.offload, parallel, &ParallelConfig::offload));
    add(list_choice<bool>("parallel.sequence", {true, false}, setting(&ParallelConfig::sequence))).matters =
        [](const ParallelConfig& g) { return g.tensor > 1; };
    add(list_choice<bool>("parallel.overlap", {true, false}, setting(&ParallelConfig::overlap))).matters =
        [](const ParallelConfig& g) { return rank_count(g) > 1; };
    add(list_choice<std::string>("parallel.bucket", {"auto", "none", "block", "700"},
                                 setting(&ParallelConfig::bucket)))
        .matters = reduces_gradients;
    add(list_choice<int>("microbatches", {1, 2, 0},
                         [](RunConfig& c, const int& level) { set_microbatches(c, level); }));
    return all;
}

RunConfig config_of(const ParallelConfig& grid, const std::vector<Choice>& choices,
                    const std::vector<int>& levels)
{
    RunConfig c;
    const i64 ranks = rank_count(grid);
    c.parallel = grid;
    c.parallel.threads = 1;
    c.train.global_batch = ranks * std::max<i64>(2, ceil_div(16, ranks));
    c.train.lr = 0.01;
    c.train.eps = 1e-3; // near the size of gradients: updates depend on their magnitude, and rounding
                        // errors stay small
    c.train.seed = 7;
    for (std::size_t f = 0; f < choices.size(); ++f)
        choices[f].levels[static_cast<std::size_t>(levels[f])].set(c);
    set_model(c);
    resolve_and_validate(c);
    return c;
}

/// Levels of the grid and of each choice, one row per case. A pair of levels counts if both have an effect,
/// and neither setting outside the pair hides small errors.
std::vector<std::vector<int>> rows_of(const std::vector<ParallelConfig>& grids,
                                      const std::vector<Choice>& all, bool longer)
{
    std::vector<int> levels{static_cast<int>(grids.size())};
    for (const Choice& choice : all)
        levels.push_back(static_cast<int>(choice.levels.size()));
    const auto choice = [&](int factor) -> const Choice& {
        return all[static_cast<std::size_t>(factor) - 1];
    };
    const auto matters = [&](const std::vector<int>& row, int factor) {
        return factor == 0 || !choice(factor).matters ||
               choice(factor).matters(grids[static_cast<std::size_t>(row[0])]);
    };
    CoveringRules rules;
    rules.leading = static_cast<std::size_t>(
        1 + std::ranges::count_if(all, [](const Choice& c) { return c.may_blur(); }));
    rules.counts = [&](const std::vector<int>& row, int f, int g) {
        const auto blurs = [&](int factor) {
            return factor > 0 && choice(factor).may_blur() &&
                   choice(factor)
                       .levels[static_cast<std::size_t>(row[static_cast<std::size_t>(factor)])]
                       .blurs &&
                   matters(row, factor);
        };
        bool blurred = false;
        for (int factor = 1; factor < static_cast<int>(rules.leading); ++factor)
            blurred = blurred || blurs(factor);
        return matters(row, f) && matters(row, g) && (!blurred || blurs(f) || blurs(g));
    };
    // First the usual runs: only the grid and microbatches are set.
    const auto factor_of = [&](const std::string& key) {
        return static_cast<std::size_t>(
                   std::ranges::find_if(all, [&](const Choice& c) { return c.key == key; }) - all.begin()) +
               1;
    };
    for (int grid = 0; grid < levels[0]; ++grid)
        for (int family = 0; family < all[factor_of("model.family") - 1].always; ++family) {
            std::vector<int>& row = rules.begun.emplace_back(levels.size(), 0);
            row[0] = grid;
            row[factor_of("model.family")] = family;
            row[factor_of("microbatches")] = family % 2; // a few or many
        }
    std::vector<std::vector<int>> rows = covering_array(levels, rules);
    if (!longer)
        return rows;
    std::vector<int> crossed = levels;
    for (std::size_t f = 1; f < levels.size(); ++f)
        crossed[f] = std::max(all[f - 1].always, 1);
    const RandomStream others(0, "check");
    for (std::vector<int> row : full_product(crossed)) {
        for (std::size_t f = 1; f < levels.size(); ++f)
            if (all[f - 1].always == 0)
                row[f] = static_cast<int>(others.bits_at(rows.size() * levels.size() + f) %
                                          static_cast<std::uint64_t>(levels[f]));
        rows.push_back(row);
    }
    return rows;
}

/// The family, or where a mix of families has its norms; with experts, how many.
std::string model_text(const ModelConfig& model)
{
    return str(model.placement == Placement::pre ? std::string(name_of(model.family))
                                                 : str("norms ", name_of(model.placement)),
               model.experts > 0 ? str(" with ", counted(model.experts, "expert")) : "");
}

} // namespace

std::string CheckCase::text() const
{
    const ParallelConfig& p = config.parallel;
    return str(model_text(config.model), " ", name_of(config.train.precision), ", ", describe_grid(p),
               p.reduce == GradientType::bf16 ? ", reduced in bf16" : "",
               p.accumulate == GradientType::bf16 ? ", accumulated in bf16" : "",
               config.train.optimizer == OptimizerKind::adamw ? ""
                                                              : str(", ", name_of(config.train.optimizer)),
               config.model.dropout > 0 ? ", dropout, z-loss, label smoothing" : "",
               p.tile > 0 ? str(", tile ", p.tile) : "",
               p.offload == Offload::none ? "" : str(", offload ", name_of(p.offload)),
               p.chunks > 1 ? str(", ", p.chunks, " chunks") : "",
               describe_choices(p).empty() ? "" : ", " + describe_choices(p), p.overlap ? "" : ", no overlap",
               ", ", counted(microbatch_count(config), "microbatch", "microbatches"));
}

std::vector<CheckCase> check_cases(int ranks, bool longer)
{
    constexpr std::size_t few = 6;
    std::vector<Choice> all = choices();
    std::vector<CheckCase> made;
    std::vector<ParallelConfig> grids = checked_grids(ranks);
    if (grids.size() < few)
        for (i64 fewer = ranks - 1; fewer > 1; --fewer)
            if (const std::vector<ParallelConfig> more = checked_grids(fewer); more.size() >= few) {
                grids.insert(grids.end(), more.begin(), more.end());
                break;
            }
    for (const std::vector<int>& row : rows_of(grids, all, longer)) {
        CheckCase c{config_of(grids[static_cast<std::size_t>(row[0])], all, {row.begin() + 1, row.end()}), 0};
        if (made.size() % 2 == 1) // alternate, so that all ranks take part
            c.first = ranks - c.ranks();
        made.push_back(std::move(c));
    }
    return made;
}

RunConfig on_one_rank(const RunConfig& config)
{
    RunConfig one = config;
    one.parallel = {};
    one.parallel.threads = config.parallel.threads;
    one.train.micro_batch = one.train.global_batch;
    return one;
}

std::string answer_key(const RunConfig& c)
{
    return str(model_text(c.model), " ", name_of(c.train.precision), ", ", name_of(c.train.optimizer),
               ", attention ", name_of(c.data.attention), ", dropout ", c.model.dropout, ", of ",
               c.model.layers, " layers, capacity ", c.model.expert_capacity, " and ", c.model.heads,
               " heads, ", c.train.global_batch, " sequences of ", c.model.seq);
}

std::vector<std::string> traits_of(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    std::vector<std::string> all;
    const auto note = [&](bool holds, const std::string& trait) {
        if (holds)
            all.push_back(trait);
    };
    for (const GridAxis& axis : grid_axes)
        note(p.*axis.degree > 1, str(axis.name, " > 1"));
    note(shard_ranks(p) > 1 && p.zero > 0, str("zero ", p.zero));
    note(shard_ranks(p) > 1 && p.zero == 0, "data > 1 without zero");
    note(p.pipeline > 1, str("schedule ", p.schedule));
    note(p.recompute != Recompute::none, str("recompute ", name_of(p.recompute)));
    note(p.tensor > 1 && p.sequence, "sequence parallel");
    note(p.tensor > 1 && !p.sequence, "tensor > 1 without sequence");
    note(rank_count(p) > 1, p.overlap ? "overlap" : "no overlap");
    note(gradient_ranks(p) > 1, str("bucket ", p.bucket));
    note(microbatch_count(c) > 1, "several microbatches");
    note(gradient_ranks(p) > 1 && p.reduce == GradientType::bf16, "gradients reduced in bf16");
    note(p.accumulate == GradientType::bf16, "gradients accumulated in bf16");
    note(shard_ranks(p) > 1 && p.tile > 0, "tiles");
    note(p.offload != Offload::none, str("offload ", name_of(p.offload)));
    note(c.data.by_documents(), "attention within documents");
    note(c.model.dropout > 0, "dropout, z-loss, label smoothing");
    note(true, str("optimizer ", name_of(c.train.optimizer)));
    note(true, str("precision ", name_of(c.train.precision)));
    if (c.model.placement == Placement::pre)
        note(true, str("family ", name_of(c.model.family)));
    else
        note(true, str("norms ", name_of(c.model.placement)));
    return all;
}

} // namespace trivium
