// `trivium explain`: the graph, the Steps and the memory of a run, or of a graph in a file.
#include "base/check.hpp"
#include "io/config_file.hpp"
#include "ir/text.hpp"
#include "plan/report.hpp"
#include "train/command.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

struct ExplainArguments {
    ConfigArguments config;
    std::vector<std::string> only;
    std::string program = "train";
    std::string dump;
    std::vector<std::string> skip;
};

Compiled compile_file(const std::string& path, const Machine& machine)
{
    std::ifstream in(path);
    if (!in)
        throw UserError({path, "cannot be read", "there is no such file, or it may not be opened", "check the path"});
    std::stringstream text;
    text << in.rdbuf();
    Compiled compiled;
    compiled.programs.push_back({parse_graph(text.str(), path)});
    Program& program = compiled.programs[0];
    verify(program.graph, Level::global);
    program.schedule = build_schedule(program.graph, {ScheduleKind::one_f_one_b, 0, 1, 1, machine.scratch});
    compiled.memory = plan_memory({&program.schedule}, {});
    return compiled;
}

std::string flops_table(const Graph& graph)
{
    std::vector<std::pair<std::string, std::pair<int, Flops>>> kinds;
    for (const Op& op : graph.ops) {
        const std::string name = info(op).name;
        auto at = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == name; });
        if (at == kinds.end())
            at = kinds.insert(kinds.end(), {name, {0, 0}});
        at->second.first += 1;
        at->second.second += flops_of(graph, op);
    }
    std::string text;
    for (const auto& [name, count] : kinds)
        text += fmt::format("  {:<20} {:>5}  {:>10} flops\n", name, count.first, format_si(count.second));
    return text;
}

int explain(const ExplainArguments& a)
{
    const Machine machine;
    const bool is_graph = a.config.file.ends_with(".graph");
    Compiled compiled;
    if (is_graph) {
        compiled = compile_file(a.config.file, machine);
    } else {
        const RunConfig config = load_config(a.config);
        compiled = compile_training(config, {machine, {a.skip, a.dump}});
        if (a.only.empty())
            fmt::print("# config\n{}\n", to_toml(config));
    }
    const Program* program = &compiled.programs[0];
    if (!is_graph) {
        const auto at = std::find_if(compiled.programs.begin(), compiled.programs.end(),
                                     [&](const Program& p) { return p.graph.name == a.program; });
        if (at == compiled.programs.end())
            throw UserError({"--program", "there is no program '" + a.program + "'", "", "use train or eval"});
        program = &*at;
    }
    const auto wanted = [&](const char* part) {
        return a.only.empty() || std::find(a.only.begin(), a.only.end(), part) != a.only.end();
    };
    if (wanted("passes")) {
        fmt::print("# passes\n");
        for (const PassRecord& r : compiled.passes)
            fmt::print("  {:<16} {:>9.3f} ms{}\n", r.name, 1e3 * r.seconds, r.skipped ? "  skipped" : "");
    }
    if (wanted("ops"))
        fmt::print("# ops of one microbatch and step\n{}", flops_table(program->graph));
    if (wanted("graph"))
        fmt::print("# graph\n{}", to_text(program->graph));
    if (wanted("steps"))
        fmt::print("# steps\n{}", to_text(program->schedule, program->graph));
    if (wanted("memory"))
        fmt::print("# memory\n{}", memory_table(compiled.memory));
    return 0;
}

} // namespace

void add_explain_command(CLI::App& app, Action& action)
{
    CLI::App* command = app.add_subcommand("explain", "the graph, the Steps and the memory of a run or of a FILE.graph");
    auto arguments = std::make_shared<ExplainArguments>();
    arguments->config.add_to(*command, false);
    command->add_option("--only", arguments->only, "parts to print: passes, ops, graph, steps, memory (default: all)")
        ->delimiter(',')
        ->check(CLI::IsMember({"passes", "ops", "graph", "steps", "memory"}));
    command->add_option("--program", arguments->program, "train or eval");
    command->add_option("--dump", arguments->dump, "folder for the graph after each pass");
    command->add_option("--skip", arguments->skip, "passes to skip, by name")->delimiter(',');
    command->callback([=, &action] { action = [=] { return explain(*arguments); }; });
}

} // namespace trivium
