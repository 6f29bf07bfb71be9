// `trivium plan`: what a run will need, without running it.
#include "base/check.hpp"
#include "plan/cost.hpp"
#include "plan/report.hpp"
#include "train/choose_grid.hpp"
#include "train/command.hpp"
#include "train/describe.hpp"
#include "train/machine_file.hpp"
#include "train/memory_json.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace trivium {

namespace {

/// One rank's part of the plan.
struct RankPlan {
    i64 rank = 0;
    Coordinates at;
    i64 parameters = 0;
    MemoryPlan memory;
};

struct PlanReport {
    RunConfig config;
    Machine machine;
    std::vector<RankPlan> ranks; ///< all, or of a large grid those that differ
    std::vector<std::string> stages; ///< the blocks of each
    Flops flops = 0;
    Seconds step = 0, stage_busy = 0; ///< of a step, and what the busiest stage computes in it
    int threads = 1;

    const RankPlan& largest() const
    {
        return *std::max_element(ranks.begin(), ranks.end(), [](const RankPlan& a, const RankPlan& b) { return a.memory.arena < b.memory.arena; });
    }
};

/// Of a large grid, the first and the last rank along data and tensor: parts get no larger from one to the next.
bool differs(const Mesh& mesh, i64 rank)
{
    constexpr i64 few = 64;
    const Coordinates at = mesh.coordinates(rank);
    for (std::size_t a = 0; a < at.size(); ++a)
        if (mesh.ranks() > few && mesh.axes[a].name != "pipeline" && at[a] > 0 && at[a] != mesh.axes[a].size - 1)
            return false;
    return true;
}

PlanReport make_report(const ConfigArguments& arguments, const std::string& machine, i64 ranks)
{
    PlanReport report;
    report.machine = machine_at(machine);
    report.config = load_config(arguments);
    if (ranks > 0)
        report.config = choose_grid(report.config, ranks);
    report.threads = thread_count(report.config.parallel, static_cast<int>(rank_count(report.config.parallel))); // as if on this machine
    CompileConfig options;
    options.machine = report.machine;
    std::vector<Program> stages;
    const auto keep = [&](i64 rank, Compiled& compiled) {
        RankPlan plan{rank, compiled.at, 0, compiled.memory};
        const Graph& g = compiled.programs[train_program].graph;
        for (const ValueId id : g.with_role(Role::parameter))
            plan.parameters += g[id].type.elements();
        report.ranks.push_back(std::move(plan));
        report.flops = compiled.flops;
        if (compiled.at[0] == 0 && compiled.at[2] == 0) { // one of each stage
            report.stages.push_back(blocks_of_stage(compiled.stage_of_block, compiled.at[1]));
            stages.push_back(std::move(compiled.programs[train_program]));
        }
    };
    compile_ranks(report.config, options, differs, keep);
    std::vector<StageProgram> programs;
    for (const Program& stage : stages)
        programs.push_back({&stage.graph, &stage.schedule});
    for (std::size_t s = 0; const Timeline& timeline : simulate(programs, report.machine, report.threads)) {
        report.step = std::max(report.step, timeline.length());
        report.stage_busy = std::max(report.stage_busy, timeline.busy(stages[s++].schedule, queue_compute));
    }
    return report;
}

void print_json(const PlanReport& r)
{
    nlohmann::ordered_json out{{"ranks", rank_count(r.config.parallel)}, {"parameters", parameter_count(r.config.model)}};
    out.update(memory_json(r.largest().memory));
    nlohmann::ordered_json ranks = nlohmann::json::array(), stages = nlohmann::json::array();
    for (const RankPlan& rank : r.ranks)
        ranks.push_back({{"rank", rank.rank},
                         {"data", rank.at[0]},
                         {"pipeline", rank.at[1]},
                         {"tensor", rank.at[2]},
                         {"parameters", rank.parameters},
                         {"arena_bytes", rank.memory.arena},
                         {"kept_bytes", rank.memory.kept},
                         {"transient_bytes", rank.memory.transient},
                         {"snapshot_bytes", rank.memory.snapshot}});
    for (const std::string& blocks : r.stages)
        stages.push_back(blocks);
    out.update(nlohmann::ordered_json{{"per_rank", ranks},
                                      {"stages", stages},
                                      {"model_flops_per_step", r.flops},
                                      {"tokens_per_step", r.config.train.global_batch * r.config.model.seq},
                                      {"threads", r.threads},
                                      {"machine", r.machine.name},
                                      {"estimated_step_seconds", r.step}});
    fmt::print("{}\n", out.dump(2));
}

/// A row for ranks of one stage that are alike.
void print_ranks(const PlanReport& r)
{
    fmt::print("\nmemory per rank\n");
    for (std::size_t first = 0; first < r.ranks.size(); ++first) {
        const RankPlan& one = r.ranks[first];
        const auto alike = [&](const RankPlan& other) {
            return other.at[1] == one.at[1] && other.memory.arena == one.memory.arena && other.parameters == one.parameters;
        };
        if (std::find_if(r.ranks.begin(), r.ranks.end(), alike) != r.ranks.begin() + static_cast<std::ptrdiff_t>(first))
            continue;
        std::string numbers;
        for (const RankPlan& other : r.ranks)
            if (alike(other) && numbers.size() < 40)
                numbers += str(numbers.empty() ? "" : ",", other.rank);
        fmt::print("  rank {:<16} stage {:<3} {:<28} {:>9} parameters  arena {:>12} {:>18} bytes\n", numbers, one.at[1],
                   r.stages[static_cast<std::size_t>(one.at[1])], format_si(static_cast<double>(one.parameters)), format_bytes(one.memory.arena),
                   format_count(one.memory.arena));
    }
    if (static_cast<i64>(r.ranks.size()) < rank_count(r.config.parallel))
        fmt::print("  the others lie between the first and the last along data and tensor\n");
}

void print_report(const PlanReport& r)
{
    const ModelConfig& m = r.config.model;
    const double tokens = static_cast<double>(r.config.train.global_batch * m.seq);
    fmt::print("model      {} parameters: {}, {} layers, dim {}, {} heads ({} key-value), ffn {}, vocab {}, seq {}\n",
               format_si(static_cast<double>(parameter_count(m))), name_of(m.family), m.layers, m.dim, m.heads, m.kv_heads,
               m.ffn_dim, m.vocab, m.seq);
    fmt::print("batch      {} sequences a step: {} microbatches of {} per data rank; {} tokens a step\n",
               r.config.train.global_batch, microbatch_count(r.config), micro_batch(r.config), format_count(static_cast<i64>(tokens)));
    fmt::print("grid       {} rank(s): {}, {}\n", rank_count(r.config.parallel), describe_grid(r.config.parallel), name_of(r.config.train.precision));
    if (r.ranks.size() > 1)
        print_ranks(r);
    fmt::print("\nmemory {}\n{}", r.ranks.size() > 1 ? str("of rank ", r.largest().rank, ", the largest") : "per rank", memory_table(r.largest().memory));
    fmt::print("\nwork       {} model flops a step (forward x 3, attention causal)\n", format_si(r.flops));
    fmt::print("estimate   {} a step, {} tokens/s, by a roofline of '{}'{} (not calibrated)\n", format_seconds(r.step),
               format_si(tokens / r.step), r.machine.name, r.machine.is_device ? "" : str(" x ", r.threads, " threads"));
    if (rank_count(r.config.parallel) > 1)
        fmt::print("           the busiest stage computes for {:.0f} % of it; the rest is pipeline bubble and communication\n", 100 * r.stage_busy / r.step);
}

} // namespace

void add_plan_command(Command& program)
{
    Command command = program.add("plan", "memory per rank and step time of a run, without running it");
    auto arguments = std::make_shared<ConfigArguments>();
    auto machine = std::make_shared<std::string>(default_machine());
    arguments->add_to(command, true);
    auto ranks = std::make_shared<i64>(0);
    command.option("--machine", *machine, machine_help(), {.type = "MACHINE"});
    command.option("--ranks", *ranks, "plan the grid that parallel.strategy = \"auto\" takes for so many ranks", {.from = 1, .to = 1e9, .type = "N"});
    command.action([=] {
        const PlanReport report = make_report(*arguments, *machine, *ranks);
        arguments->json ? print_json(report) : print_report(report);
        return 0;
    });
}

} // namespace trivium
