// `trivium plan`: what a run will need, without running it.
#include "base/check.hpp"
#include "plan/cost.hpp"
#include "plan/report.hpp"
#include "train/command.hpp"
#include "train/memory_json.hpp"

#include <fmt/format.h>

namespace trivium {

namespace {

struct PlanReport {
    RunConfig config;
    Compiled compiled;
    Machine machine;
    Flops flops = 0;
    Seconds step = 0;
    int threads = 1;
};

PlanReport make_report(const ConfigArguments& arguments)
{
    PlanReport report;
    report.config = load_config(arguments);
    report.compiled = compile_training(report.config, {report.machine, {}});
    const Program& train = report.compiled.programs[train_program];
    report.threads = thread_count(report.config.parallel);
    report.flops = report.compiled.flops;
    report.step = simulate(train.graph, train.schedule, report.machine, report.threads).length();
    return report;
}

void print_json(const PlanReport& r)
{
    nlohmann::ordered_json out{{"ranks", rank_count(r.config.parallel)}, {"parameters", parameter_count(r.config.model)}};
    out.update(memory_json(r.compiled.memory));
    out.update(nlohmann::ordered_json{{"model_flops_per_step", r.flops},
                               {"tokens_per_step", r.config.train.global_batch * r.config.model.seq},
                               {"threads", r.threads},
                               {"machine", r.machine.name},
                               {"estimated_step_seconds", r.step}});
    fmt::print("{}\n", out.dump(2));
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
    fmt::print("grid       {} rank(s): data {} x pipeline {} x tensor {}, {}\n", rank_count(r.config.parallel),
               r.config.parallel.data, r.config.parallel.pipeline, r.config.parallel.tensor, name_of(r.config.train.precision));
    fmt::print("\nmemory per rank\n{}", memory_table(r.compiled.memory));
    fmt::print("\nwork       {} model flops a step (forward x 3, attention causal)\n", format_si(r.flops));
    fmt::print("estimate   {} a step, {} tokens/s, by a roofline of '{}' x {} threads (not calibrated)\n",
               format_seconds(r.step), format_si(tokens / r.step), r.machine.name, r.threads);
}

} // namespace

void add_plan_command(Command& program)
{
    Command command = program.add("plan", "memory per rank and step time of a run, without running it");
    auto arguments = std::make_shared<ConfigArguments>();
    arguments->add_to(command, true);
    command.action([=] {
        const PlanReport report = make_report(*arguments);
        arguments->json ? print_json(report) : print_report(report);
        return 0;
    });
}

} // namespace trivium
