#include "base/check.hpp"
#include "choose/graph_search.hpp"
#include "choose/memory_policy.hpp"
#include "compile/pipeline.hpp"
#include "ir/text/text.hpp"
#include "model/program.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

namespace trivium {

namespace {

/// The statement of a line: what stands before its comment, without blanks at the end.
std::size_t end_of_statement(const std::string& line)
{
    bool quoted = false;
    std::size_t end = 0;
    for (; end < line.size() && (quoted || line[end] != '#'); ++end)
        quoted = quoted != (line[end] == '"');
    while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t' || line[end - 1] == '\r'))
        --end;
    return end;
}

/// Whether the text is a graph with the shardings of `graph`.
bool has_shardings(const std::function<Graph()>& parse, const Graph& graph)
{
    try {
        return std::ranges::equal(parse().values, graph.values, [](const Value& x, const Value& y) {
            return to_text(x.sharding) == to_text(y.sharding);
        });
    } catch (const UserError&) {
        return false;
    }
}

} // namespace

std::string annotated_text(const std::string& text, const AnnotatedGraph& made,
                           const std::function<Graph(const std::string&)>& parse)
{
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    std::set<int> done;
    for (const ValueId v : made.annotated) {
        const Value& value = made.graph[v];
        if (!done.insert(value.line).second) // it is repeated
            continue;
        std::string& line = lines.at(static_cast<std::size_t>(value.line) - 1);
        std::size_t at = end_of_statement(line);
        if (!value.producer) { // "parameter %w : f32[8,12] init …"
            const std::size_t type = line.find(']', line.find(':'));
            at = type == std::string::npos ? at : type + 1;
        }
        constexpr std::string_view nothing = " <>"; // is what it replaces
        if (at >= nothing.size() && line.compare(at - nothing.size(), nothing.size(), nothing) == 0)
            at -= nothing.size();
        if (line.compare(at, nothing.size(), nothing) == 0)
            line.erase(at, nothing.size());
        line.insert(at, " " + to_text(value.sharding));
    }
    std::string all;
    for (const std::string& line : lines)
        all += line + "\n";
    return has_shardings([&] { return parse(all); }, made.graph) ? all : to_text(made.graph);
}

TrainingSearch::TrainingSearch(const RunConfig& config, const Machine& machine, int thread_limit)
    : config_(config), on_(search_on(machine, config.parallel, thread_limit)),
      graph_(parsed(config.model.program.text.get()))
{
}

Graph TrainingSearch::parsed(const std::string& text) const
{
    TextSettings settings;
    settings.sizes.insert(config_.model.sizes.list.begin(), config_.model.sizes.list.end());
    if (config_.model.program.samples > 0)
        settings.sizes["b"] = micro_batch(config_) * batch_ranks(config_.parallel);
    Graph graph = parse_graph(text, config_.model.file, settings);
    for (const auto& [name, degree] : named_degrees(config_.parallel))
        for (MeshAxis& axis : graph.mesh.axes)
            if (axis.name == name)
                axis.size = degree;
    return graph;
}

std::string TrainingSearch::text(const AnnotatedGraph& made) const
{
    return annotated_text(config_.model.program.text.get(), made,
                          [&](const std::string& text) { return parsed(text); });
}

GraphSearchConfig TrainingSearch::search() const
{
    GraphSearchConfig search;
    search.machine = on_.clock.name;
    search.simulate = [this](AnnotatedGraph& made) {
        RunConfig c = config_;
        c.model.program = read_program(text(made), c.model.file, c.model.sizes);
        resolve_and_validate(c); // other axes may shard the samples
        c.train.micro_batch = micro_batch(c);
        c.parallel.threads = on_.threads(c.parallel);
        c = with_usual_policy(std::move(c));
        Compiling estimator(on_.clock);
        const Score score = estimator.rough_score(
            {c, training_order(c)}, on_.clock, {c.parallel.memory_limit, on_.memory(rank_count(c.parallel))});
        made.seconds = score.fits ? score.step : INFINITY;
    };
    return search;
}

} // namespace trivium
