// `trivium explain`: the graph, the Steps and the memory of a run, or of a graph in a file.
#include "base/check.hpp"
#include "io/config_file.hpp"
#include "ir/op_reference.hpp"
#include "ir/text.hpp"
#include "passes/bucket.hpp"
#include "passes/partition.hpp"
#include "passes/propagate.hpp"
#include "passes/simplify.hpp"
#include "passes/stage.hpp"
#include "plan/cost.hpp"
#include "plan/report.hpp"
#include "schedule/commands.hpp"
#include "train/command.hpp"
#include "train/machine_file.hpp"
#include "train/memory_json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>

namespace trivium {

namespace {

struct ExplainArguments {
    ConfigArguments config;
    std::vector<std::string> only;
    std::string program = "train";
    std::string dump;
    std::vector<std::string> skip;
    std::string reference;
    std::string machine = default_machine();
    i64 rank = 0;
};

void require_rank(i64 rank, i64 ranks)
{
    if (rank >= ranks)
        throw UserError({"--rank", str("there is no rank ", rank), str("the grid has ", ranks), str("give 0 to ", ranks - 1)});
}

nlohmann::ordered_json shardings_json(const Graph& graph)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Value& v : graph.values) {
        nlohmann::ordered_json dims = nlohmann::json::array();
        for (const DimSharding& dim : v.sharding.dims)
            dims.push_back(dim.axes);
        all.push_back({{"value", v.name}, {"type", to_string(v.type)}, {"dims", dims}, {"origin", v.sharding.origin}});
    }
    return all;
}

nlohmann::ordered_json communication_json(const Graph& graph)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Op& op : graph.ops)
        if (info(op).communicates)
            all.push_back({{"op", info(op).name}, {"axis", text_attr(op.attrs, "axis")}, {"region", name_of(op.region)}, {"phase", name_of(op.phase)},
                           {"block", op.block}, {"scope", op.scope}, {"tensors", std::max(op.operands.size(), op.results.size())},
                           {"bytes_sent", bytes_sent(graph, op)}});
    return all;
}

/// A graph in a file is whole, or one rank's (it says `at`). Where a whole one has a mesh of several ranks, `rank`'s part of
/// it is made.
Compiled compile_file(const std::string& path, const Machine& machine, i64 rank)
{
    std::ifstream in(path);
    if (!in)
        throw UserError({path, "cannot be read", "there is no such file, or it may not be opened", "check the path"});
    std::stringstream text;
    text << in.rdbuf();
    Compiled compiled;
    compiled.programs.push_back({parse_graph(text.str(), path)});
    Program& program = compiled.programs[0];
    const bool local = !program.graph.at.empty();
    verify(program.graph, local ? Level::local : Level::global);
    program.sharded = program.graph;
    ScheduleConfig schedule;
    schedule.scratch = machine.scratch;
    const bool communicates = std::any_of(program.graph.ops.begin(), program.graph.ops.end(), [](const Op& op) { return info(op).communicates; });
    if (communicates && !local)
        throw UserError({path, "is one stage's graph, before it is one rank's", "it communicates, and has no line `at`",
                         "give the graph of all ranks, or one that a later pass has made (explain --dump)"});
    if (const Mesh mesh = program.graph.mesh; mesh.ranks() > 1 && !local) {
        require_rank(rank, mesh.ranks());
        const Coordinates at = mesh.coordinates(rank);
        program.sharded = propagate(std::move(program.graph));
        verify(program.sharded, Level::sharded);
        program.graph = program.sharded;
        if (schedule.stages = mesh.size("pipeline"); schedule.stages > 1) {
            schedule.stage = at[static_cast<std::size_t>(mesh.find("pipeline"))];
            program.graph = cut_stage(program.graph, {balance_stages(program.graph, schedule.stages), static_cast<int>(schedule.stage), "pipeline"});
        }
        program.graph = bucket(simplify(partition(program.graph, {at, "pipeline"})), {});
    }
    program.schedule = build_schedule(program.graph, schedule);
    compiled.memory = plan_memory({&program.schedule}, {});
    return compiled;
}

/// Each value with how it is cut, and what decided that.
std::string sharding_table(const Graph& graph)
{
    std::string text;
    for (const Value& v : graph.values)
        text += fmt::format("  {:<44} {:<22} {:<26} {}\n", "%" + v.name, to_string(v.type), to_text(v.sharding),
                            v.sharding.origin.empty() ? "" : "by " + v.sharding.origin);
    return text;
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

/// docs/config.md.
std::string config_page()
{
    std::string page = "# Config files\n\nGenerated by `trivium explain --reference keys`; a test keeps it so.\n\n"
                       "A run is one TOML file; `key=value` behind it on the command line overrides a key by its dotted name, e.g.\n"
                       "`trivium train run.toml train.lr=1e-3 model.layers=8`. A key that is unknown is an error that names the nearest\n"
                       "known one. Paths are relative to the folder in which the command runs.\n\n" +
                       config_reference() + "\n## Presets\n\n`model.preset` starts from a named shape; 0 words means the tokenizer's vocabulary.\n\n"
                       "| preset | family | parameters | layers | dim | heads | key-value heads | ffn_dim | vocab | seq | tied |\n"
                       "|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (const std::string& name : preset_names()) {
        ModelConfig m = preset(name);
        resolve(m);
        const std::string parameters = m.vocab > 0 ? format_si(static_cast<double>(parameter_count(m))) : "";
        page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name, name_of(m.family), parameters, m.layers, m.dim,
                            m.heads, m.kv_heads, m.ffn_dim, m.vocab, m.seq, m.tied_embeddings ? "yes" : "");
    }
    return page;
}

int explain(const ExplainArguments& a)
{
    if (a.reference == "keys")
        return fmt::print("{}", config_page()), 0;
    if (a.reference == "ops")
        return fmt::print("{}", op_reference()), 0;
    if (a.config.file.empty())
        throw UserError({"command line", "no config is given", "", "name a CONFIG.toml or a FILE.graph"});
    const Machine machine = machine_at(a.machine);
    const bool is_graph = a.config.file.ends_with(".graph");
    Compiled compiled;
    if (is_graph) {
        compiled = compile_file(a.config.file, machine, a.rank);
    } else {
        const RunConfig config = load_config(a.config);
        require_rank(a.rank, rank_count(config.parallel));
        compiled = compile_training(config, {machine, {a.skip, a.dump}, a.rank});
        std::vector<std::string> passes;
        for (const PassRecord& pass : compiled.passes)
            passes.push_back(pass.name);
        for (const std::string& name : a.skip)
            if (std::find(passes.begin(), passes.end(), name) == passes.end())
                throw UserError({"--skip", str("there is no pass '", name, "'"), "", "`trivium explain CONFIG.toml --only passes` lists them"});
        const bool wanted = a.only.empty() || std::find(a.only.begin(), a.only.end(), "config") != a.only.end();
        if (wanted && !a.config.json)
            fmt::print("# config\n{}\n", to_toml(config));
    }
    const Program* program = &compiled.programs[0];
    if (!is_graph) {
        const auto at = std::find_if(compiled.programs.begin(), compiled.programs.end(),
                                     [&](const Program& p) { return p.graph.name == a.program; });
        program = &*at; // the command line let no other name pass
    }
    const auto wanted = [&](const std::string& part) {
        return (a.only.empty() && part != "commands") || std::find(a.only.begin(), a.only.end(), part) != a.only.end();
    };
    if (a.config.json) {
        nlohmann::ordered_json out, passes = nlohmann::json::array();
        for (const PassRecord& r : compiled.passes)
            passes.push_back({{"name", r.name}, {"seconds", r.seconds}, {"skipped", r.skipped}});
        if (wanted("passes"))
            out["passes"] = passes;
        if (wanted("graph"))
            out["graph"] = to_text(program->graph);
        if (wanted("shardings"))
            out["shardings"] = shardings_json(program->sharded);
        if (wanted("communication"))
            out["communication"] = communication_json(program->graph);
        if (wanted("steps"))
            out["steps"] = to_text(program->schedule, program->graph);
        if (wanted("memory"))
            out["memory"] = memory_json(compiled.memory);
        fmt::print("{}\n", out.dump(2));
        return 0;
    }
    if (wanted("passes")) {
        fmt::print("# passes\n");
        for (const PassRecord& r : compiled.passes)
            fmt::print("  {:<16} {:>9.3f} ms{}\n", r.name, 1e3 * r.seconds, r.skipped ? "  skipped" : "");
    }
    if (wanted("shardings"))
        fmt::print("# shardings, over all ranks\n{}", sharding_table(program->sharded));
    if (wanted("communication") && program->graph.mesh.ranks() > 1)
        fmt::print("# communication of rank {}: where, what, along which axis, tensors, bytes sent a time, times a microbatch or step\n{}", a.rank,
                   communication_table(program->graph));
    if (wanted("ops"))
        fmt::print("# ops of one microbatch and step\n{}", flops_table(program->graph));
    if (wanted("graph"))
        fmt::print("# graph\n{}", to_text(program->graph));
    if (wanted("steps"))
        fmt::print("# steps\n{}", to_text(program->schedule, program->graph));
    if (wanted("commands"))
        fmt::print("# commands to a device, had it one launch a Step\n{}", to_text(lower(program->schedule), program->schedule, program->graph));
    if (wanted("memory"))
        fmt::print("# memory\n{}", memory_table(compiled.memory));
    return 0;
}

} // namespace

void add_explain_command(Command& program)
{
    Command command = program.add("explain", "the graph, the Steps and the memory of a run or of a FILE.graph");
    auto arguments = std::make_shared<ExplainArguments>();
    arguments->config.add_to(command, true, false);
    command
        .option("--only", arguments->only, "parts to print: config, passes, shardings, communication, ops, graph, steps, commands, memory (default: all but commands)",
                {.list = true, .words = {"config", "passes", "shardings", "communication", "ops", "graph", "steps", "commands", "memory"}})
        .option("--machine", arguments->machine, machine_help(), {.type = "MACHINE"})
        .option("--rank", arguments->rank, "whose part of the program (default: rank 0)", {.from = 0, .to = 1e9})
        .option("--program", arguments->program, "train or eval", {.words = {"train", "eval"}})
        .option("--dump", arguments->dump, "folder for the graph after each pass")
        .option("--skip", arguments->skip, "passes to skip, by name", {.list = true})
        .option("--reference", arguments->reference, "print the reference of config keys or of ops, and nothing else",
                {.words = {"keys", "ops"}});
    command.action([=] { return explain(*arguments); });
}

} // namespace trivium
