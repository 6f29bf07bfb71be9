// `trivium explain`: graph, Steps and memory of a run, or of a graph in a file.
#include "base/check.hpp"
#include "base/log.hpp"
#include "choose/decide.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/config_json.hpp"
#include "cli/config_page.hpp"
#include "cli/graph/graph_report.hpp"
#include "cli/graph/run_graph.hpp"
#include "cli/graph/search_graph.hpp"
#include "cli/machine_file.hpp"
#include "cli/memory_json.hpp"
#include "cli/memory_picture.hpp"
#include "cli/schedule_picture.hpp"
#include "compile/compile.hpp"
#include "compile/describe.hpp"
#include "io/files/config_file.hpp"
#include "io/files/config_value.hpp"
#include "io/files/files.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_reference.hpp"
#include "ir/text/text.hpp"
#include "plan/cost.hpp"
#include "plan/graph_file.hpp"
#include "plan/memory_history.hpp"
#include "plan/report.hpp"
#include "schedule/commands.hpp"
#include "schedule/order_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace trivium {

namespace {

struct ExplainArguments {
    ConfigArguments config;
    std::vector<std::string> only;
    std::string program = "train";
    std::string dump;
    std::vector<std::string> skip;
    std::string reference;
    std::string svg, csv;
    std::string machine = default_machine();
    i64 rank = 0;
    double costly = 0.1;
    GraphRunArguments run;
    GraphSearchArguments search;
};

nlohmann::ordered_json shardings_json(const Graph& graph)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Value& v : graph.values) {
        nlohmann::ordered_json dims = nlohmann::json::array();
        for (const DimSharding& dim : v.sharding->dims)
            dims.push_back(dim.axes);
        all.push_back(
            {{"value", v.name}, {"type", to_string(v.type)}, {"dims", dims}, {"origin", v.sharding->origin}});
    }
    return all;
}

nlohmann::ordered_json communication_json(const Graph& graph)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Op& op : graph.ops)
        if (info(op).communicates)
            all.push_back({{"op", info(op).name},
                           {"axis", *op.attrs->axis},
                           {"region", name_of(op.region)},
                           {"phase", name_of(op.phase)},
                           {"block", op.block},
                           {"scope", op.scope},
                           {"tensors", std::max(op.operands.size(), op.results.size())},
                           {"bytes_sent", mean_bytes_sent(graph, op)}});
    return all;
}

nlohmann::ordered_json totals_json(const std::vector<CommunicationTotal>& totals)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const CommunicationTotal& t : totals)
        all.push_back({{"axis", t.axis},
                       {"part", t.part},
                       {"times", t.times},
                       {"collectives", t.collectives},
                       {"sends", t.sent},
                       {"receives", t.received},
                       {"bytes_sent", t.bytes}});
    return all;
}

Compiled compile_file(const ExplainArguments& a, const Machine& machine, Shardings& propagated)
{
    const std::string text = read_file(a.config.file, "graph file", static_cast<Bytes>(max_text_bytes));
    GraphProgram made = compile_graph(text, a.config.file, machine, a.rank, {a.skip, a.dump});
    Compiled compiled;
    compiled.programs.push_back(std::move(made.program));
    compiled.memory = made.memory;
    compiled.passes = std::move(made.passes);
    propagated = std::move(made.propagated);
    return compiled;
}

/// Throws UserError unless all passes to be skipped exist.
void require_passes(const ExplainArguments& a, const Compiled& compiled)
{
    for (const std::string& name : a.skip)
        if (std::ranges::none_of(compiled.passes, [&](const PassRecord& pass) { return pass.name == name; }))
            throw UserError({"--skip", str("there is no pass '", name, "'"), "",
                             str("`trivium explain ", a.config.file, " --only passes` lists them")});
}

/// Costly communication of a graph of all ranks; nothing for that of one rank, or of a pipeline.
std::vector<Advice> advice(const ExplainArguments& a, const Graph& decided, const Machine& machine)
{
    const Graph graph = parse_graph(
        read_file(a.config.file, "graph file", static_cast<Bytes>(max_text_bytes)), a.config.file);
    if (!graph.at.empty() || graph.mesh.ranks() == 1 || graph.mesh.size(pipeline_axis) > 1)
        return {};
    return advise(graph, decided, a.costly, 64, work_prices(machine, graph.mesh.ranks()));
}

/// Whether it is one stage of a pipeline: then ranks also send each other single tensors.
bool sends_messages(const Graph& graph)
{
    return std::ranges::any_of(graph.ops, [](const Op& op) { return op.attrs->to || op.attrs->from; });
}

/// Refuses a file that is neither a graph by its name nor a config by its contents.
RunConfig config_to_explain(const ConfigArguments& arguments)
{
    const std::string suffix = std::filesystem::path(arguments.file).extension().string();
    if (suffix.empty() || suffix == ".toml")
        return load_training_config(arguments);
    const std::string text = read_file(arguments.file, "config file", max_settings_bytes);
    try {
        parse_toml(text, arguments.file);
    } catch (const UserError&) {
        throw UserError({arguments.file,
                         str("is neither a config nor a graph: its name ends in '", suffix,
                             "', and it is not valid TOML"),
                         "", "name a CONFIG.toml or a FILE.graph"});
    }
    return load_training_config(arguments);
}

nlohmann::ordered_json explained_memory_json(const Compiled& compiled, const Program& program)
{
    nlohmann::ordered_json all = memory_json(compiled.memory), rows = nlohmann::json::array();
    for (const PeakRow& row : peak_rows(memory_history(program.schedule, program.graph), program.schedule))
        rows.push_back({{"buffer", row.name},
                        {"kind", name_of(row.kind)},
                        {"buffers", row.buffers},
                        {"bytes", row.bytes},
                        {"first_step", row.first ? nlohmann::json(row.first.index()) : nlohmann::json()},
                        {"last_step", row.last ? nlohmann::json(row.last.index()) : nlohmann::json()}});
    all["buffers_at_peak"] = rows;
    return all;
}

void print_memory(const Compiled& compiled, const Program& program)
{
    fmt::print("# memory\n{}", memory_table(compiled.memory));
    const MemoryHistory history = memory_history(program.schedule, program.graph);
    fmt::print("# largest buffers at the peak of program {}\n{}# bytes alive over an optimizer step\n{}",
               program.graph.name, peak_table(history, program.schedule, program.graph),
               memory_chart(history, program.schedule));
}

nlohmann::ordered_json schedule_json(const SimulatedStep& step, const ScheduleChart& chart)
{
    nlohmann::ordered_json ranks = nlohmann::json::array();
    for (const ScheduleChart::Row& row : chart.rows) {
        nlohmann::ordered_json spans = nlohmann::json::array();
        for (const ScheduleChart::Span& span : row.spans)
            spans.push_back({{"mark", std::string(1, letter_of(span.mark))},
                             {"chunk", span.chunk},
                             {"microbatch", span.microbatch},
                             {"begin_seconds", span.begin},
                             {"end_seconds", span.end}});
        ranks.push_back({{"bubble", chart.bubble(row)},
                         {"peak_in_flight", row.in_flight},
                         {"activation_bytes", row.activations},
                         {"spans", spans}});
    }
    return {{"name", step.parallel.schedule},
            {"chunks", step.chunks},
            {"microbatches", step.ranks.front().program.microbatches},
            {"step_seconds", chart.step},
            {"bubble", chart.bubble()},
            {"pipeline_ranks", ranks}};
}

void write_output(const std::string& path, const std::string& content)
{
    spare_other_kinds(path, content);
    write_file(path, content);
    log_info("wrote " + path);
}

/// Throws UserError if an option that prints something else is set.
void require_alone(const ExplainArguments& a, const char* flag)
{
    if (const char* const option = !a.only.empty()   ? "--only"
                                   : !a.svg.empty()  ? "--svg"
                                   : !a.csv.empty()  ? "--csv"
                                   : a.rank != 0     ? "--rank"
                                   : !a.skip.empty() ? "--skip"
                                   : !a.dump.empty() ? "--dump"
                                                     : nullptr)
        throw UserError({flag, str("does not go together with ", option), "it has an output of its own",
                         "remove one of the two"});
}

/// The machine with the delays of links that are asked for.
Machine delayed_machine(const ExplainArguments& a)
{
    return with_delay(machine_at(a.machine), a.run.delay_latency, a.run.delay_bandwidth);
}

int explain_search(const ExplainArguments& a)
{
    require_alone(a, "--search");
    if (a.run.run)
        throw UserError({"--search", "does not go together with --run", "a search runs nothing",
                         "search first, then run the result"});
    GraphSearchArguments search = a.search;
    search.file = a.config.file;
    search.machine = delayed_machine(a);
    search.json = a.config.json;
    if (!search.file.ends_with(".graph")) {
        search.config = config_to_explain(a.config);
        if (!search.config->model.is_program())
            throw UserError({"--search", "is for programs (model.family = \"graph\")",
                             str("'", search.file, "' has a transformer"),
                             "use `trivium plan CONFIG.toml --ranks N`"});
    }
    return search_graph(search);
}

int explain_run(const ExplainArguments& a)
{
    if (!a.config.file.ends_with(".graph"))
        throw UserError({"--run", "only a graph can be run",
                         str("'", a.config.file, "' does not end in .graph"),
                         "name a FILE.graph, or use `trivium train CONFIG.toml`"});
    require_alone(a, "--run");
    GraphRunArguments run = a.run;
    run.file = a.config.file;
    run.machine = delayed_machine(a);
    run.json = a.config.json;
    return run_graph(run);
}

int explain(const ExplainArguments& a)
{
    if (a.reference == "keys")
        return fmt::print("{}", config_page()), 0;
    if (a.reference == "ops")
        return fmt::print("{}", op_reference()), 0;
    if (a.config.file.empty())
        throw UserError({"command line", "a config is missing", "", "name a CONFIG.toml or a FILE.graph"});
    if (!a.search.search && !a.run.run && (a.run.delay_latency > 0 || a.run.delay_bandwidth > 0))
        throw UserError({"--delay-latency, --delay-bandwidth", "have no effect without --run or --search", "",
                         "add one of the two, or remove them"});
    if (a.search.search)
        return explain_search(a);
    if (a.run.run)
        return explain_run(a);
    const Machine machine = machine_at(a.machine);
    const bool is_graph = a.config.file.ends_with(".graph");
    const auto selected = [&](const std::string& part) {
        return (a.only.empty() && part != "commands" && part != "schedule") ||
               std::ranges::find(a.only, part) != a.only.end();
    };
    const bool draws_schedule = selected("schedule");
    if (!a.csv.empty() && is_graph)
        throw UserError(
            {"--csv", "a graph file has no pipeline schedule", a.config.file, "name a CONFIG.toml"});
    if (draws_schedule && is_graph)
        throw UserError({"--only schedule", "a graph file has the program of one rank only", a.config.file,
                         "name a CONFIG.toml"});
    if (draws_schedule && !a.svg.empty() && a.only.size() > 1)
        throw UserError({"--svg", "one file cannot have the pictures of several parts", "",
                         "draw the schedule with --only schedule, the memory without it"});
    nlohmann::ordered_json out;
    Compiled compiled;
    Shardings propagated;
    SimulatedStep step;
    ScheduleChart chart;
    std::vector<std::string> about{a.config.file}; // subtitles of pictures
    if (is_graph) {
        compiled = compile_file(a, machine, propagated);
        require_passes(a, compiled);
    } else {
        const RunConfig asked = config_to_explain(a.config);
        require_rank(a.rank, rank_count(asked.parallel));
        const Choices choices = decide(asked, machine);
        const RunConfig& config = choices.recorded;
        compiled = compile_training(choices, {machine, {a.skip, a.dump}, a.rank});
        require_passes(a, compiled);
        about = {describe_model(config), draws_schedule
                                             ? describe_grid(config.parallel)
                                             : str("rank ", a.rank, " of ", describe_grid(config.parallel))};
        if (draws_schedule) {
            step = simulate_step(choices, {machine, {a.skip, ""}},
                                 a.program == "eval" ? eval_program : train_program, thread_limit());
            chart = schedule_picture(step);
        }
        if (selected("config") && !a.config.json)
            fmt::print("# config\n{}\n", to_toml(config));
        else if (selected("config"))
            out["config"] = config_json(config);
    }
    const Program* program = &*std::ranges::find_if(compiled.programs, [&](const Program& p) {
        return is_graph || p.graph.name == a.program; // the command line accepts no other name
    });
    if (!a.csv.empty())
        write_output(a.csv, to_csv(compiled.order));
    if (!a.svg.empty()) {
        about.back() += str("; on '", machine.name, "'");
        ArenaChart arena;
        if (!draws_schedule)
            arena = memory_picture(program->schedule, program->graph, compiled.memory);
        chart.subtitles = arena.subtitles = about;
        write_output(a.svg, draws_schedule ? schedule_svg(chart) : arena_svg(arena));
    }
    if (a.config.json) {
        nlohmann::ordered_json passes = nlohmann::json::array();
        for (const PassRecord& r : compiled.passes)
            passes.push_back({{"name", r.name}, {"seconds", r.seconds}, {"skipped", r.skipped}});
        if (selected("passes"))
            out["passes"] = passes;
        if (selected("graph"))
            out["graph"] = to_text(program->graph);
        if (selected("shardings"))
            out["shardings"] = shardings_json(*program->sharded);
        if (selected("shardings") && is_graph)
            out["values"] = values_json(*program->sharded, propagated);
        if (selected("communication") && is_graph) {
            const std::vector<CollectiveEntry> all = collectives_to_report(*program->sharded, program->graph);
            out["collectives"] = collectives_json(all);
            out["collective_totals"] = collective_totals_json(all);
            out["warnings"] = advice_json(advice(a, *program->sharded, machine));
        }
        if (selected("communication")) {
            out["communication"] = communication_json(program->graph);
            out["communication_totals"] =
                totals_json(communication_totals(program->graph, program->microbatches));
        }
        if (selected("steps"))
            out["steps"] = to_text(program->schedule, program->graph);
        if (selected("memory"))
            out["memory"] = explained_memory_json(compiled, *program);
        if (draws_schedule)
            out["schedule"] = schedule_json(step, chart);
        fmt::print("{}\n", out.dump(2));
        return 0;
    }
    if (selected("passes")) {
        fmt::print("# passes\n");
        for (const PassRecord& r : compiled.passes)
            fmt::print("  {:<16} {:>9.3f} ms{}\n", r.name, 1e3 * r.seconds, r.skipped ? "  skipped" : "");
    }
    if (selected("shardings") && is_graph)
        fmt::print(
            "# shardings over all ranks: <x+y,-> lists the mesh axes of each dimension, major first, - for "
            "none; |x:sum is still to be summed over x\n{}",
            values_table(*program->sharded, propagated));
    if (selected("shardings") && !is_graph)
        fmt::print("# shardings, over all ranks\n{}{}", sharding_legend, sharding_table(*program->sharded));
    if (selected("communication") && is_graph)
        fmt::print("# collectives of rank {}; bytes are what a rank sends, averaged over the ranks\n{}",
                   a.rank, collectives_table(collectives_to_report(*program->sharded, program->graph)));
    if (selected("communication") && program->graph.mesh.ranks() > 1 &&
        (!is_graph || sends_messages(program->graph))) {
        fmt::print(
            "# communication of rank {}: where, what, along which axis, tensors, bytes sent each time, "
            "times per microbatch or step\n{}",
            a.rank, communication_table(program->graph));
        fmt::print(
            "# totals of rank {} per axis, then of a whole optimizer step; bytes are what a rank sends, "
            "averaged over the axis\n{}",
            a.rank, totals_table(communication_totals(program->graph, program->microbatches)));
    }
    if (selected("ops"))
        fmt::print("# ops of one microbatch and step\n{}", flops_table(program->graph));
    if (selected("graph"))
        fmt::print("# graph\n{}{}{}", sharding_legend, rule_legend, to_text(program->graph));
    if (selected("steps"))
        fmt::print("# steps\n{}{}", steps_legend, to_text(program->schedule, program->graph));
    if (selected("commands"))
        fmt::print("# commands to a device, with one launch per Step\n{}",
                   to_text(lower(program->schedule), program->schedule, program->graph));
    if (selected("memory"))
        print_memory(compiled, *program);
    if (draws_schedule)
        fmt::print("# schedule, simulated\n{}", schedule_text(chart, terminal_columns()));
    if (const std::string changed = changed_text(*program->sharded, propagated);
        selected("shardings") && is_graph && !changed.empty())
        fmt::print("# warnings: shardings that propagation found otherwise, changed because ranks then send "
                   "less in all; an annotation keeps a sharding\n{}",
                   changed);
    if (selected("communication") && is_graph)
        if (const std::string warnings = advice_text(advice(a, *program->sharded, machine));
            !warnings.empty())
            fmt::print("# warnings: costly collectives, and the annotation that avoids them\n{}", warnings);
    return 0;
}

} // namespace

void add_explain_command(Command& program)
{
    Command command = program.add(
        "explain", "print graph, shardings, communication, Steps and memory of a run or of a FILE.graph");
    auto arguments = std::make_shared<ExplainArguments>();
    arguments->config.add_to(command, true, false);
    command
        .option("--only", arguments->only,
                "parts to print: config, passes, shardings, communication, ops, graph, steps, commands, "
                "memory, schedule (default: all but commands and schedule)",
                {.list = true,
                 .words = {"config", "passes", "shardings", "communication", "ops", "graph", "steps",
                           "commands", "memory", "schedule"}})
        .option("--machine", arguments->machine, machine_help(), {.type = "MACHINE"})
        .option("--rank", arguments->rank, "rank whose program is printed (default: 0)",
                {.from = 0, .to = 1e9})
        .option(
            "--costly", arguments->costly,
            "of a FILE.graph: warn of a collective that sends more than this share of the bytes of a rank's "
            "tensors, and name the annotation that avoids it (default: 0.1)",
            {.from = 0, .to = 1e9})
        .option("--program", arguments->program, "program to print: train or eval",
                {.words = {"train", "eval"}})
        .option(
            "--svg", arguments->svg,
            "file for a picture of the arena over an optimizer step, with a rectangle for each buffer; with "
            "--only schedule, of the tasks of all pipeline ranks")
        .option("--csv", arguments->csv,
                "file for the order of the pipeline schedule, which parallel.schedule can name")
        .option("--dump", arguments->dump, "folder for the graph after each pass")
        .option("--skip", arguments->skip, "passes to skip, by name", {.list = true})
        .option("--reference", arguments->reference, "print the reference page of config keys or of ops",
                {.words = {"keys", "ops"}})
        .flag("--run", arguments->run.run,
              "run a FILE.graph once on all ranks of its mesh (under mpirun or srun, or alone as threads of "
              "one "
              "process), and compare its outputs with those of the unpartitioned program")
        .option(
            "--inputs", arguments->run.inputs,
            "with --run: safetensors file with the inputs, parameters and states by name (default: random "
            "numbers)",
            {.type = "FILE", .needs = "--run"})
        .option("--outputs", arguments->run.outputs, "with --run: safetensors file to write the outputs to",
                {.type = "FILE", .needs = "--run"})
        .option("--seed", arguments->run.seed, "with --run: seed of the random numbers",
                {.show_default = true, .needs = "--run"})
        .option("--repeat", arguments->run.repeats,
                "with --run: number of further runs, whose median time is printed",
                {.from = 1, .to = 1e6, .needs = "--run"})
        .flag("--search", arguments->search.search,
              "of a FILE.graph, or of the program that a CONFIG.toml trains: find the shardings, chosen per "
              "op, with the shortest simulated time, or step, and print the annotated graph")
        .option("--write", arguments->search.output, "with --search: file for the annotated graph",
                {.type = "FILE.graph", .needs = "--search"})
        .option("--tries", arguments->search.tries, "with --search: programs to simulate at most",
                {.show_default = true, .from = 1, .to = 1e7, .needs = "--search"})
        .option("--delay-latency", arguments->run.delay_latency,
                "with --run or --search: seconds that each message takes longer, as parallel.delay_latency",
                {.from = 0, .to = 1e6})
        .option("--delay-bandwidth", arguments->run.delay_bandwidth,
                "with --run or --search: bytes per second of a rank's link, as parallel.delay_bandwidth",
                {.from = 0, .to = 1e24});
    command.action([=] { return explain(*arguments); });
}

} // namespace trivium
