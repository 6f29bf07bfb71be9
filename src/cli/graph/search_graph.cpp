#include "cli/graph/search_graph.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "choose/graph_search.hpp"
#include "cli/config_arguments.hpp"
#include "compile/threads.hpp"
#include "io/files/files.hpp"
#include "ir/limits.hpp"
#include "ir/text/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
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

/// The file's text with the annotations behind the types, so that its comments and its order stay. Of a value
/// with something behind its type (`of`, `init` …), between the two.
std::string annotated_text(const std::string& text, const GraphSearchResult& found)
{
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    for (const ValueId v : found.annotated) {
        const Value& value = found.graph[v];
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
    std::string made;
    for (const std::string& line : lines)
        made += line + "\n";
    return made;
}

/// Whether the text is a graph with the shardings of `graph`.
bool has_shardings(const std::string& text, const Graph& graph)
{
    try {
        return std::ranges::equal(
            parse_graph(text, "").values, graph.values,
            [](const Value& x, const Value& y) { return to_text(x.sharding) == to_text(y.sharding); });
    } catch (const UserError&) {
        return false;
    }
}

std::string milliseconds(Seconds seconds) { return fmt::format("{:.4g} ms", 1e3 * seconds); }

std::string summary_of(const GraphSearchArguments& a, const GraphSearchResult& found)
{
    std::string text =
        fmt::format("# shardings by `trivium explain --search` on '{}': {} simulated, {} as given",
                    a.machine.name, milliseconds(found.found), milliseconds(found.given));
    if (found.uniform > 0)
        text +=
            fmt::format("\n# the best strategy that is the same for all ops ({}): {}, {:.2f} times as long",
                        found.uniform_strategy, milliseconds(found.uniform), found.uniform / found.found);
    return text + fmt::format("\n# {} simulated\n", counted(found.simulated, "program"));
}

} // namespace

int search_graph(const GraphSearchArguments& a)
{
    const std::string text = read_file(a.file, "graph file", static_cast<Bytes>(max_text_bytes));
    const Graph graph = read_graph(text, a.file);
    if (!graph.at.empty() || graph.mesh.ranks() == 1 || graph.mesh.size(pipeline_axis) > 1)
        throw UserError({a.file, "has nothing to search",
                         !graph.at.empty() ? "it is the graph of one of several ranks"
                         : graph.mesh.ranks() == 1
                             ? "its mesh has one rank"
                             : "its mesh has pipeline stages, which this search does not "
                               "price",
                         "name a graph of all ranks, with a line such as `mesh x=4`"});
    GraphSearchConfig config;
    config.machine = a.machine;
    config.tries = static_cast<std::size_t>(a.tries);
    config.progress = [](const std::string& line) { log_progress(line); };
    if (!a.machine.is_device)
        config.threads =
            thread_count({}, thread_limit(), static_cast<int>(a.machine.ranks_of_a_node(graph.mesh.ranks())));
    const GraphSearchResult found = search_shardings(graph, config);
    std::string made = annotated_text(text, found);
    if (!has_shardings(made, found.graph)) // an annotation did not fit behind its statement
        made = to_text(found.graph);
    if (!a.output.empty()) {
        const std::string content = summary_of(a, found) + made;
        spare_other_kinds(a.output, content);
        write_file(a.output, content);
        log_info("wrote " + a.output);
    }
    if (a.json) {
        nlohmann::ordered_json annotations = nlohmann::json::object();
        for (const ValueId v : found.annotated)
            annotations[found.graph[v].name] = to_text(found.graph[v].sharding);
        fmt::print("{}\n", nlohmann::ordered_json{{"seconds", found.found},
                                                  {"given_seconds", found.given},
                                                  {"uniform_seconds", found.uniform},
                                                  {"uniform_strategy", found.uniform_strategy},
                                                  {"simulated", found.simulated},
                                                  {"annotations", annotations},
                                                  {"graph", made}}
                               .dump(2));
    } else {
        fmt::print("{}{}", summary_of(a, found), a.output.empty() ? made : "");
    }
    return 0;
}

} // namespace trivium
