#include "choose/plan_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "choose/decide.hpp"
#include "choose/smaller.hpp"
#include "choose/step_formulas.hpp"
#include "choose/strategy_space.hpp"
#include "compile/describe.hpp"
#include "compile/saved_values.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Ranks to compile: all ranks of a small run, otherwise the first of each stage along data and tensor, which
/// have the largest shards.
bool is_planned(const RunConfig& config, const Mesh& mesh, i64 rank)
{
    const i64 ranks = mesh.ranks();
    return (ranks <= 64 && ranks * config.model.repeated() <= 512) || is_first_of_stage(mesh, rank);
}

MemoryVerdict verdict_on(const PlanReport& r)
{
    MemoryVerdict v;
    v.available = memory_of_rank(r.machine, 1); // of a device or of a node
    v.known = v.available > 0;
    const auto needs = [&](const RankPlan& rank) { return bytes_needed(rank.memory, r.machine); };
    if (r.machine.is_device) {
        for (const RankPlan& rank : r.ranks)
            v.needed = std::max(v.needed, needs(rank));
    } else {
        const i64 ranks = r.rank_total(), each = r.machine.ranks_of_a_node(ranks);
        const Mesh mesh = mesh_of(r.config.parallel);
        std::vector<Bytes> of_stage(r.stages.size(), 0);
        for (const RankPlan& rank : r.ranks)
            of_stage[static_cast<std::size_t>(rank.stage)] =
                std::max(of_stage[static_cast<std::size_t>(rank.stage)], needs(rank));
        Bytes sum = 0;
        for (i64 rank = 0, planned = 0; rank < ranks; ++rank) {
            sum = rank % each == 0 ? 0 : sum;
            const bool own = planned < static_cast<i64>(r.ranks.size()) &&
                             r.ranks[static_cast<std::size_t>(planned)].rank == rank;
            sum += own ? needs(r.ranks[static_cast<std::size_t>(planned++)])
                       : of_stage[static_cast<std::size_t>(stage_of(mesh, rank))];
            v.needed = std::max(v.needed, sum);
        }
        v.sharers = each;
    }
    v.fits = v.known && v.needed <= v.available;
    return v;
}

/// The longest shorter sequence that fits, by itself or with one of the settings; "" if none does: then it is
/// not the activations that are too large.
std::string shorter_sequence(Candidate shorter, Estimator& estimator, Bytes share)
{
    while (!shorter.config.model.is_program() && (shorter.config.model.seq /= 2) >= 64) {
        std::vector<SmallerSetting> settings = smaller_settings(shorter, estimator.machine());
        settings.insert(settings.begin(), {"", shorter});
        for (const SmallerSetting& each : settings)
            if (bytes_of_largest(each.candidate, estimator, share))
                return str("model.seq=", shorter.config.model.seq, each.overrides.empty() ? "" : " ",
                           each.overrides, " fits");
    }
    return "";
}

/// Finds what fits: other settings on the same number of ranks, otherwise more ranks, otherwise shorter
/// sequences.
std::string remedy_for(const PlanReport& r, const Candidate& chosen, const RunConfig& given, i64 ranks,
                       Estimator& estimator)
{
    const Machine& machine = r.machine;
    std::string tried;
    for (const SmallerSetting& change : smaller_settings(chosen, machine)) {
        tried += (tried.empty() ? "" : ", ") + change.overrides;
        if (bytes_of_largest(change.candidate, estimator, memory_of_rank(machine, r.rank_total())))
            return change.overrides + " fits";
    }
    const auto choose = [&](const RunConfig& config, i64 count, const std::string& overrides) {
        const auto found =
            fitting_strategy(config, count, search_on(machine, config.parallel, r.threads), estimator);
        if (!found)
            return std::string();
        const ParallelConfig& grid = found->parallel;
        return str(counted(rank_count(grid), "rank"), overrides.empty() ? "" : " with " + overrides,
                   " fit: ", describe_grid(grid));
    };
    // Then with other settings in place of those that are given.
    std::vector<std::pair<std::string, RunConfig>> variants{{"", given}};
    const OpenSettings open = open_settings(given);
    RunConfig less = given;
    less.train.micro_batch = 1;
    const std::string one = given.train.micro_batch == 1 ? "" : "train.micro_batch=1";
    if (given.train.micro_batch > 1)
        variants.emplace_back(one, less);
    less.parallel.zero = 3;
    if (!open.zero && given.parallel.zero < 3)
        variants.emplace_back(str("parallel.zero=3", one.empty() ? "" : " ", one), less);
    const double trained = given.model.is_program() ? 0
                                                    : as_double(parameter_counts(given).trained) *
                                                          trained_per_element(given); // bytes, of all ranks
    constexpr i64 most_times = 64;
    const i64 now = std::max(ranks, r.rank_total());
    const bool shared_by_all = !machine.is_device && machine.ranks_per_node == 0; // more ranks add no memory
    for (i64 times = ranks > 0 && variants.size() > 1 ? 1 : 2; times <= (shared_by_all ? 1 : most_times);
         times *= 2)
        if (const i64 count = times * now; trained <= as_double(count * memory_of_rank(machine, count)))
            for (const auto& [overrides, config] : variants) {
                if (times == 1 && overrides.empty())
                    continue; // has been searched
                if (const std::string fits = choose(config, count, overrides); !fits.empty())
                    return fits;
            }
    const std::string more =
        shared_by_all ? "" : str(tried.empty() ? "" : " nor ", "up to ", most_times, " times as many ranks");
    if (const std::string fits = shorter_sequence(chosen, estimator, memory_of_rank(machine, r.rank_total()));
        !fits.empty())
        return fits;
    return str("use ",
               shared_by_all ? "several nodes (memory and ranks_per_node of a machine file, --machine), a "
                               "machine with more memory,"
                             : "a machine with more memory",
               " or a smaller model: ", format_bytes(r.largest().memory.kept),
               " per rank are parameters, optimizer states and what else is kept between steps",
               tried.empty() && more.empty() ? "" : str(" (neither ", tried, more, " is enough)"));
}

/// What the search has compiled of the strategy of this config, if it has all that a plan compiles. Measured
/// times of ops depend on threads, which the search counts for each grid.
std::unique_ptr<CompiledStages> compiled_by_search(const RunConfig& config, const Machine& machine,
                                                   Compiling& estimator)
{
    std::unique_ptr<CompiledStages> made = estimator.take_fastest();
    if (!made || key_of(made->candidate.config) != key_of(config) ||
        !(machine.is_device || made->candidate.config.parallel.threads == config.parallel.threads))
        return {};
    return made;
}

} // namespace

const RankPlan& PlanReport::largest() const
{
    TRV_EXPECT(!ranks.empty(), "a plan without ranks");
    return *std::ranges::max_element(
        ranks, [](const RankPlan& a, const RankPlan& b) { return a.memory.arena < b.memory.arena; });
}

double PlanReport::mfu(const Strategy& strategy) const
{
    return strategy.score.flops /
           (strategy.score.step * machine.peak(compute_type(config.train.precision), threads) *
            static_cast<double>(rank_count(strategy.config.parallel)));
}

PlanReport make_plan(const RunConfig& config, const Machine& machine, i64 ranks, int thread_limit,
                     std::size_t which, bool with_remedy)
{
    PlanReport report;
    const ParallelConfig& links = config.parallel;
    report.machine = with_delay(machine, links.delay_latency, links.delay_bandwidth);
    report.asked = ranks;
    Compiling estimator(machine);
    RunConfig planned = config;
    std::unique_ptr<CompiledStages> known;
    if (ranks > 0) {
        estimator.keep_fastest();
        SearchResult found =
            search_strategies(config, ranks, search_on(machine, links, thread_limit), estimator);
        report.strategies = std::move(found.strategies);
        report.considered = found.considered;
        if (report.strategies.empty() && !found.smallest)
            throw_no_grid(config, ranks);
        if (!report.strategies.empty() && which >= report.strategies.size())
            throw UserError({"--explain", str("there is no strategy ", which + 1),
                             str("the search kept ", report.strategies.size()),
                             str("name one of 1 to ", report.strategies.size())});
        report.shown = report.strategies.empty() ? 0 : which;
        planned = report.strategies.empty() ? *found.smallest : report.own().config;
        known = compiled_by_search(planned, machine, estimator);
    }
    const auto as_compiled = [&](const CompiledStages& stages) {
        Choices made{planned, stages.candidate.order, planned, stages.buckets.sharded};
        made.config.parallel.bucket = stages.buckets.mode;
        return made;
    };
    const Choices choices = known ? as_compiled(*known) : decide(planned, estimator);
    const RunConfig& chosen = choices.config;
    report.config = choices.recorded;
    report.chosen = chosen.parallel;
    report.threads = planned_threads(chosen.parallel, machine, thread_limit);
    CompileConfig options;
    options.machine = machine;
    const Mesh mesh = mesh_of(chosen.parallel);
    Score score;
    report.step = known ? std::move(known->step) : PlayedStep(chosen, choices.order, machine);
    const auto keep = [&](i64 rank, const Compiled& compiled, const Program& train) {
        const i64 stage = stage_of(mesh, rank);
        RankPlan plan{rank, stage, 0, compiled.memory};
        const Graph& g = train.graph;
        for (const Value& v : g.values)
            plan.parameters += is_trained(v) || v.update.kind == UpdateKind::frozen ? v.type.elements() : 0;
        report.ranks.push_back(std::move(plan));
        if (report.checkpoint == 0)
            for (const Value& v : train.sharded->values)
                if (v.role == Role::parameter || v.role == Role::state)
                    report.checkpoint += v.type.elements() * size_of(saved_type(v));
        score.flops = compiled.flops;
        if (is_first_of_stage(mesh, rank)) {
            report.stages.push_back(blocks_of_rank(report.config.model, compiled.rank_of_block, stage));
            score.bytes.push_back(bytes_needed(compiled.memory, machine));
        }
    };
    auto next = known ? known->ranks.begin() : decltype(known->ranks.begin()){};
    const auto take_known = [&](i64 rank) { // ranks ascend
        if (!known || next == known->ranks.end() || next->first != rank)
            return false;
        const auto stage = static_cast<std::size_t>(next - known->ranks.begin());
        keep(rank, (next++)->second, report.step->ranks()[stage].program);
        return true;
    };
    compile_ranks(
        choices, options,
        [&](const Mesh&, i64 rank) { return !take_known(rank) && is_planned(chosen, mesh, rank); },
        [&](i64 rank, Compiled& compiled) {
            Program& train = compiled.programs[train_program];
            keep(rank, compiled, train);
            if (is_first_of_stage(mesh, rank))
                report.step->add(rank, std::move(train), compiled.memory);
            return true;
        });
    // What the search has compiled it has simulated, too, on the same machine.
    score.step = known ? report.own().score.step : report.step->simulate(report.machine, report.threads);
    score.parts = report.step->parts();
    score.arena = report.largest().memory.arena;
    if (report.strategies.empty()) {
        Strategy own{chosen, {}, rule_of(chosen, machine)};
        own.config.parallel.bucket = choices.recorded.parallel.bucket;
        report.strategies.push_back(std::move(own));
    }
    report.strategies[report.shown].score = std::move(score);
    report.strategies[report.shown].exact = true;
    report.memory = verdict_on(report);
    if (with_remedy && report.memory.known && !report.memory.fits) {
        // Without a limit, "auto" stands for the same whatever changes, but for buckets; with one, so does
        // the form.
        Candidate own{chosen.parallel.memory_limit == 0 ? chosen : choices.recorded, choices.order};
        own.config.parallel.context_form = chosen.parallel.context_form;
        own.config.parallel.bucket = choices.recorded.parallel.bucket;
        report.memory.remedy = remedy_for(report, own, config, ranks, estimator);
    }
    return report;
}

} // namespace trivium
