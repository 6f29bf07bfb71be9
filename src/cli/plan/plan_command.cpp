// `trivium plan`: memory and time of a run, without running it.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/rank_list.hpp"
#include "choose/plan_report.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/config_json.hpp"
#include "cli/machine_file.hpp"
#include "cli/memory_json.hpp"
#include "cli/plan/plan_long_run.hpp"
#include "cli/plan/plan_scaling.hpp"
#include "cli/plan/plan_strategies.hpp"
#include "compile/describe.hpp"
#include "config/trained_parameters.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "ir/exchange.hpp"
#include "ir/ops/op_table.hpp"
#include "plan/report.hpp"
#include "schedule/trace.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace trivium {

namespace {

nlohmann::ordered_json plan_json(const PlanReport& r, const LongRunOptions& long_run)
{
    const Score& score = r.own().score;
    const ParameterCounts counts = parameter_counts(r.config);
    nlohmann::ordered_json out{{"ranks", rank_count(r.config.parallel)},
                               {"parameters", counts.all},
                               {"trained_parameters", counts.trained},
                               {"active_parameters", active_parameter_count(r.config.model)}};
    out.update(memory_json(r.largest().memory));
    nlohmann::ordered_json ranks = nlohmann::json::array(), stages = nlohmann::json::array();
    const auto degrees = named_degrees(r.config.parallel);
    for (const RankPlan& rank : r.ranks) {
        nlohmann::ordered_json& row = ranks.emplace_back(nlohmann::ordered_json{{"rank", rank.rank}});
        i64 block = rank_count(r.config.parallel); // ranks that are the same on the axes so far
        for (const auto& [axis, degree] : degrees) {
            const i64 whole = std::exchange(block, block / degree);
            row[axis] = rank.rank % whole / block;
        }
        row.update(nlohmann::ordered_json{{"parameters", rank.parameters},
                                          {"arena_bytes", rank.memory.arena},
                                          {"kept_bytes", rank.memory.kept},
                                          {"transient_bytes", rank.memory.transient},
                                          {"snapshot_bytes", rank.memory.snapshot},
                                          {"read_ahead_bytes", rank.memory.read_ahead},
                                          {"host_arena_bytes", rank.memory.host_arena}});
    }
    for (const std::string& blocks : r.stages)
        stages.push_back(blocks);
    out.update(nlohmann::ordered_json{{"per_rank", ranks},
                                      {"stages", stages},
                                      {"model_flops_per_step", score.flops},
                                      {"tokens_per_step", r.config.train.global_batch * r.config.model.seq},
                                      {"threads", r.threads},
                                      {"machine", r.machine.name},
                                      {"expert_load", r.machine.expert_load},
                                      {"estimated_step_seconds", score.step},
                                      {"estimated_step_seconds_range", range_json(r.own(), r)},
                                      {"estimated_exposed_seconds", score.step - score.parts.computed},
                                      {"estimated_mfu", r.mfu(r.own())},
                                      {"steps", r.config.train.steps},
                                      {"estimated_run_seconds", r.duration(r.own())},
                                      {"estimated_device_hours", r.device_hours(r.own())},
                                      {"checkpoint_bytes", r.checkpoint}});
    const MemoryVerdict& m = r.memory;
    for (const auto& [axis, degree] : degrees)
        out["grid"][axis] = degree;
    out["fits"] = m.known ? nlohmann::ordered_json(m.fits) : nlohmann::ordered_json();
    out["memory_bytes_available"] = m.known ? nlohmann::ordered_json(m.available) : nlohmann::ordered_json();
    out["memory_bytes_needed"] = m.needed;
    out["ranks_sharing_memory"] = m.sharers;
    if (!m.remedy.empty())
        out["remedy"] = m.remedy;
    out["strategies"] = strategies_json(r);
    out["strategies_considered"] = r.considered;
    if (r.asked > 0)
        out["sensitivities"] = sensitivities_json(sensitivities_of(r));
    if (const std::optional<LongRunPlan> run = long_run_of(r, long_run))
        out["long_run"] = to_json(*run);
    out["config"] = config_json(r.config);
    return out;
}

/// A line for each name, "ranks" or "train.steps": the value alone, text without quotes.
void print_values(const nlohmann::ordered_json& plan, const std::vector<std::string>& names)
{
    std::string lines;
    for (const std::string& name : names) {
        const std::size_t dot = name.find('.');
        const auto& config = plan.at("config");
        const bool is_key = dot != std::string::npos && config.contains(name.substr(0, dot));
        const auto& table = is_key ? config.at(name.substr(0, dot)) : plan;
        const auto found = table.find(is_key ? name.substr(dot + 1) : name);
        if (found == table.end())
            throw UserError({"--get", str("there is no value '", name, "'"), "",
                             "name members of what --json prints, or config keys such as train.steps"});
        lines += str(found->is_string() ? found->get<std::string>() : found->dump(), "\n");
    }
    fmt::print("{}", lines);
}

/// Shortens a list to about 40 characters, ending in "…".
std::string shortened(const std::string& list)
{
    constexpr std::size_t most = 40;
    return list.size() <= most ? list : list.substr(0, list.rfind(',', most)) + ", …";
}

/// One row per group of equal ranks of a stage.
void print_rank_table(const PlanReport& r)
{
    fmt::print("\nmemory per rank\n");
    for (std::size_t first = 0; first < r.ranks.size(); ++first) {
        const RankPlan& one = r.ranks[first];
        const auto alike = [&](const RankPlan& other) {
            return other.stage == one.stage && other.memory.arena == one.memory.arena &&
                   other.parameters == one.parameters;
        };
        if (std::ranges::find_if(r.ranks, alike) != r.ranks.begin() + static_cast<std::ptrdiff_t>(first))
            continue;
        std::vector<int> numbers;
        for (const RankPlan& other : r.ranks)
            if (alike(other))
                numbers.push_back(static_cast<int>(other.rank));
        fmt::print("  {:<21} stage {:<3} {:<28} {:>9} parameters  arena {:>12} {:>18} bytes\n",
                   shortened(print_ranks(numbers)), one.stage, r.stages[static_cast<std::size_t>(one.stage)],
                   format_si(static_cast<double>(one.parameters)), format_bytes(one.memory.arena),
                   format_count(one.memory.arena));
    }
    if (static_cast<i64>(r.ranks.size()) < rank_count(r.config.parallel))
        fmt::print("  the other ranks of a stage need as much or less\n");
}

/// "fits: largest rank needs 10.00 GiB of 79.10 GiB".
void print_verdict(const PlanReport& r)
{
    const MemoryVerdict& m = r.memory;
    const std::string largest = format_bytes(bytes_needed(r.largest().memory, r.machine));
    if (!m.known) {
        fmt::print("\nlargest rank needs {}; the memory of '{}' is unknown (`memory` in a machine file)\n",
                   largest, r.machine.name);
        return;
    }
    const std::string of =
        m.sharers > 1 ? str(largest, ", the ", m.sharers, " ranks of a node ", format_bytes(m.needed))
                      : largest;
    fmt::print("\n{}: largest rank needs {} of {}{}\n", m.fits ? "fits" : "does NOT fit", of,
               format_bytes(m.available),
               r.machine.is_device    ? str(" of '", r.machine.name, "'")
               : r.machine.memory > 0 ? ""
                                      : " available here");
    if (r.machine.is_device && r.config.parallel.offload != Offload::none)
        fmt::print("  but `train` of this version refuses parallel.offload on GPUs\n");
    if (!m.fits)
        fmt::print("  {} too much{}\n", format_bytes(m.needed - m.available),
                   r.asked > 0 ? str("; no strategy for ", counted(r.asked, "rank"), " fits") : "");
    if (!m.fits)
        fmt::print("  remedy: {}\n", m.remedy);
}

/// "0.97 s to 1.03 s by the errors of its calibration: 1.6 % in the median, at most 4.6 %".
std::string calibration_of(const PlanReport& r)
{
    if (r.machine.calibration_worst == 0)
        return "not calibrated";
    const auto [shortest, longest] = r.range(r.own());
    return fmt::format("{} to {} by the errors of its calibration: {:.1f} % in the median, at most {:.1f} %",
                       format_seconds(shortest), format_seconds(longest), 100 * r.machine.calibration_error,
                       100 * r.machine.calibration_worst);
}

/// "; each exchange moves 4,096 rows of a rank into 8,192 places"; nothing without exchanges.
std::string exchanges_text(const PlanReport& r)
{
    for (const SimulatedRank& one : r.step->ranks())
        for (const Op& op : one.program.graph.ops)
            if (op.kind == OpKind::exchange_rows)
                return str("; an exchange moves ", format_count(expected_rows(one.program.graph, op)),
                           " rows of a rank into ",
                           format_count(one.program.graph[op.results[0]].type.shape[1]), " places");
    return "";
}

void print_report(const PlanReport& r, const LongRunOptions& long_run)
{
    const ModelConfig& m = r.config.model;
    const Score& score = r.own().score;
    const ParameterCounts counts = parameter_counts(r.config);
    const double tokens = static_cast<double>(r.config.train.global_batch * m.seq);
    if (m.is_program())
        fmt::print("model      {}\n", describe_model(r.config));
    else
        fmt::print("model      {}: {}, {}, dim {}, {} ({} key-value), ffn {}{}, vocab {}, seq {}\n",
                   describe_size(r.config), name_of(m.family), counted(m.layers, "layer"), m.dim,
                   counted(m.heads, "head"), m.kv_heads, m.ffn_dim, describe_experts(m), m.vocab, m.seq);
    fmt::print("batch      {} per step: {} of {} per data rank{}\n",
               counted(r.config.train.global_batch, m.is_program() ? "sample" : "sequence"),
               counted(microbatch_count(r.config), "microbatch", "microbatches"), micro_batch(r.config),
               m.is_program() ? "" : str("; ", format_count(static_cast<i64>(tokens)), " tokens per step"));
    for (const BatchRamp::Stage& stage : r.config.train.batch_ramp.stages)
        fmt::print("           before: {} of {} in {}\n", counted(stage.steps, "step"),
                   counted(stage.batch, "sequence"),
                   counted(microbatch_count(r.config, stage.batch), "microbatch", "microbatches"));
    fmt::print("grid       {}{}: {}, {}\n", counted(r.rank_total(), "rank"),
               r.asked > r.rank_total() ? str(" of ", r.asked, ", the others idle") : "",
               describe_grid(r.config.parallel), name_of(r.config.train.precision));
    if (const std::string chosen = describe_choices(r.chosen); !chosen.empty())
        fmt::print("           {}\n", chosen);
    if (r.ranks.size() > 1)
        print_rank_table(r);
    fmt::print("\nmemory {}\n{}",
               r.ranks.size() > 1 ? str("of rank ", r.largest().rank, ", the largest") : "per rank",
               memory_table(r.largest().memory));
    print_verdict(r);
    fmt::print("\nwork       {} model FLOPs per step ({}{})\n", format_si(score.flops),
               counts.trained < counts.all ? "forward, and the gradients that are computed" : "forward x 3",
               m.is_program() ? "" : ", causal attention");
    fmt::print("estimate   {} per step, {} {}/s, simulated on '{}'{} ({})\n", format_seconds(score.step),
               format_si(tokens / score.step), m.units(), r.machine.name,
               r.machine.is_device ? "" : str(" x ", counted(r.threads, "thread")), calibration_of(r));
    if (m.experts > 0)
        fmt::print("           assumes {}{}\n",
                   r.machine.expert_load <= 1
                       ? std::string("equally loaded experts")
                       : fmt::format("that the fullest rank's experts have {:.3g} times the mean load",
                                     r.machine.expert_load),
                   exchanges_text(r));
    if (rank_count(r.config.parallel) > 1)
        fmt::print("           the busiest stage computes {:.0f} % of that time; the rest is pipeline bubble "
                   "and communication\n",
                   100 * score.parts.computed / score.step);
    fmt::print("           MFU {:.1f} % of {}FLOP/s\n", 100 * r.mfu(r.own()),
               format_si(score.flops / score.step / r.mfu(r.own())));
    fmt::print("run        {} in {}, {:.1f} {}, {} {}; size of a checkpoint {}\n",
               counted(r.config.train.steps, "step"), format_seconds(r.duration(r.own())),
               r.device_hours(r.own()), r.machine.is_device ? "device-hours" : "rank-hours",
               format_si(static_cast<double>(samples_in(r.config.train, r.config.train.steps) * m.seq)),
               m.units(), format_bytes(r.checkpoint));
    if (const std::optional<LongRunPlan> run = long_run_of(r, long_run))
        fmt::print("{}", to_text(*run));
    if (r.asked > 0)
        fmt::print("{}", sensitivities_text(r, sensitivities_of(r)));
    if (r.strategies.size() > 1)
        fmt::print("\n{}", strategies_table(r));
}

/// The simulated step, in the form of log.trace.
void write_trace(const PlanReport& r, const std::string& path)
{
    std::vector<std::string> events;
    for (const SimulatedRank& one : r.step->ranks())
        events.push_back(trace_events(one.program.graph, one.program.schedule, one.timeline, one.rank, 0));
    const std::string trace = trace_json(events);
    spare_other_kinds(path, trace);
    write_file(path, trace);
    const i64 all = microbatch_count(r.config), traced = r.step->microbatches();
    log_info(str("wrote ", path,
                 traced < all ? str(", a step of ", traced, " microbatches in place of ", all) : ""));
}

int plan_scaling(const RunConfig& config, const Machine& where, const std::vector<i64>& counts,
                 const std::string& svg, bool json)
{
    std::vector<PlanReport> reports;
    std::set<std::string> warned;
    for (const i64 ranks : counts) {
        const auto warn = [&](const std::string& warning) {
            if (warned.insert(warning).second)
                log_warning(warning);
        };
        try {
            reports.push_back(make_plan(config, where, ranks, thread_limit(), 0, false));
        } catch (const UserError& error) { // of this number of ranks, or of all
            if (ranks == counts.back() && reports.empty())
                throw;
            warn(error.what());
            continue;
        }
        std::ranges::for_each(warnings_of_strategy(reports.back().own().config, &config), warn);
    }
    if (!svg.empty()) {
        write_file(svg, scaling_svg(reports));
        log_info("wrote " + svg);
    }
    fmt::print("{}", json ? scaling_json(reports).dump(2) + "\n" : scaling_table(reports));
    return 0;
}

} // namespace

void add_plan_command(Command& program)
{
    Command command =
        program.add("plan", "predict memory per rank and step time of a run, without running it");
    auto arguments = std::make_shared<ConfigArguments>();
    auto machine = std::make_shared<std::string>(default_machine());
    arguments->add_to(command, true);
    auto ranks = std::make_shared<std::string>();
    command.option("--machine", *machine, machine_help(), {.type = "MACHINE"});
    command.option("--ranks", *ranks,
                   "search the best strategy for this many ranks: what the config leaves open, as "
                   "parallel.strategy = \"auto\" does; 8..512: for 8, 16, 32, … 512",
                   {.type = "N|A..B"});
    auto which = std::make_shared<i64>(1);
    command.option("--explain", *which, "with --ranks: report on the strategy with this number in the table",
                   {.from = 1, .to = 1e6, .type = "K"});
    auto load = std::make_shared<double>(0);
    command.option(
        "--expert-load", *load,
        "assume that the rank whose experts have most rows has this many times the mean; 0 = as the "
        "machine says (1: equally loaded experts)",
        {.from = 0, .to = 1e6});
    auto written = std::make_shared<std::string>();
    command.option("--write", *written, "file for the config with the strategy, to train with");
    auto svg = std::make_shared<std::string>();
    command.option("--svg", *svg, "with --ranks A..B: file for the curve of tokens per second");
    auto long_run = std::make_shared<LongRunOptions>();
    command.option("--tokens", long_run->tokens, "length of the run in tokens, instead of train.steps",
                   {.from = 1, .to = 1e18});
    command.option(
        "--node-failure-hours", long_run->node_failure_hours,
        "mean hours of a node between failures; 0 = no failures. The default on devices is that of "
        "Llama 3's training (arXiv:2407.21783): 419 in 54 days on 2,048 nodes",
        {.from = 0, .to = 1e18});
    command.option("--restart-seconds", long_run->restart_seconds,
                   "from a failure to the next step: requeue, start and read", {.from = 0, .to = 1e18});
    command.option("--write-bytes-per-second", long_run->write_bytes_per_second,
                   "rate at which the file system takes a checkpoint; 0 = 1 GB/s per node",
                   {.from = 0, .to = 1e18});
    auto values = std::make_shared<std::vector<std::string>>();
    command.option("--get", *values,
                   "print these values alone, a line each: members of what --json prints, config keys",
                   {.list = true, .type = "NAME,…"});
    auto trace = std::make_shared<std::string>();
    command.option("--trace", *trace,
                   "file for a trace of the simulated step, in the form of log.trace: the first rank of each "
                   "pipeline stage");
    auto must_fit = std::make_shared<bool>(false);
    command
        .flag("--must-fit", *must_fit,
              "exit with status 2 unless the plan fits the machine's memory (also if that memory is unknown)")
        .footer("Exit status: 0 if there is a plan, whether it fits or not (see `fits` in the JSON and "
                "--must-fit); 2 if there is none.");
    command.action([=] {
        Machine where = machine_at(*machine);
        if (*load > 0)
            where.expert_load = std::max(1.0, *load);
        const RunConfig config = load_training_config(*arguments, !ranks->empty());
        const std::vector<i64> counts = ranks->empty() ? std::vector<i64>{0} : ranks_in(*ranks);
        if (counts.size() > 1)
            return plan_scaling(config, where, counts, *svg, arguments->json);
        const bool with_remedy = values->empty() || std::ranges::count(*values, "remedy") > 0;
        const PlanReport report = make_plan(config, where, counts.front(), thread_limit(),
                                            static_cast<std::size_t>(*which - 1), with_remedy);
        if (!ranks->empty())
            for (const std::string& warning : warnings_of_strategy(report.own().config, &config))
                log_warning(warning);
        if (!written->empty())
            write_file(*written, to_toml(report.own().config));
        if (!trace->empty())
            write_trace(report, *trace);
        if (!values->empty())
            print_values(plan_json(report, *long_run), *values);
        else if (arguments->json)
            fmt::print("{}\n", plan_json(report, *long_run).dump(2));
        else
            print_report(report, *long_run);
        return *must_fit && !report.memory.fits ? 2 : 0;
    });
}

} // namespace trivium
