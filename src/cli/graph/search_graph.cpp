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

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// JSON has no infinity: null is for a strategy that does not fit.
nlohmann::ordered_json seconds_json(Seconds seconds)
{
    return std::isfinite(seconds) ? nlohmann::ordered_json(seconds) : nlohmann::ordered_json();
}

std::string milliseconds(Seconds seconds)
{
    return std::isfinite(seconds) ? fmt::format("{:.4g} ms", 1e3 * seconds) : "does not fit";
}

std::string summary_of(const GraphSearchArguments& a, const GraphSearchResult& found)
{
    std::string text =
        fmt::format("# shardings by `trivium explain --search` on '{}': {} simulated, {} as given",
                    a.machine.name, milliseconds(found.found.seconds), milliseconds(found.given));
    if (!found.uniform.empty()) {
        const auto& [name, best] = found.uniform.front();
        text += fmt::format("\n# the best strategy that is the same for all ops ({}): {}", name,
                            milliseconds(best.seconds));
        if (std::isfinite(best.seconds))
            text += fmt::format(", {:.2f} times as long", best.seconds / found.found.seconds);
    }
    return text + fmt::format("\n# {} simulated\n", counted(found.simulated, "program"));
}

} // namespace

int search_graph(const GraphSearchArguments& a)
{
    std::optional<TrainingSearch> training;
    std::string text;
    Graph graph;
    if (a.config) {
        training.emplace(*a.config, a.machine, thread_limit());
        graph = training->graph();
    } else {
        text = read_file(a.file, "graph file", static_cast<Bytes>(max_text_bytes));
        graph = read_graph(text, a.file);
    }
    if (!graph.at.empty() || graph.mesh.ranks() == 1 || graph.mesh.size(pipeline_axis) > 1)
        throw UserError({a.file, "has nothing to search",
                         !graph.at.empty() ? "it is the graph of one of several ranks"
                         : graph.mesh.ranks() == 1
                             ? "its mesh has one rank"
                             : "its mesh has pipeline stages, which this search does not "
                               "price",
                         a.config ? "set degrees of the program's axes in [parallel.axes]"
                                  : "name a graph of all ranks, with a line such as `mesh x=4`"});
    const i64 threads = a.machine.is_device
                            ? 1
                            : thread_count({}, thread_limit(),
                                           static_cast<int>(a.machine.ranks_of_a_node(graph.mesh.ranks())));
    GraphSearchConfig config = training ? training->search() : program_search(a.machine, threads);
    config.tries = static_cast<std::size_t>(a.tries);
    config.progress = [](const std::string& line) { log_progress(line); };
    const GraphSearchResult found = search_shardings(graph, config);
    const auto text_of = [&](const AnnotatedGraph& made) {
        return training ? training->text(made) : annotated_text(text, made, [](const std::string& annotated) {
            return parse_graph(annotated, "");
        });
    };
    const std::string made = text_of(found.found);
    if (!a.output.empty()) {
        const std::string content = summary_of(a, found) + made;
        spare_other_kinds(a.output, content);
        write_file(a.output, content);
        log_info("wrote " + a.output);
    }
    if (a.json) {
        nlohmann::ordered_json annotations = nlohmann::json::object(), uniform = nlohmann::json::array();
        for (const ValueId v : found.found.annotated)
            annotations[found.found.graph[v].name] = to_text(found.found.graph[v].sharding);
        for (const auto& [name, strategy] : found.uniform)
            uniform.push_back({{"strategy", name},
                               {"seconds", seconds_json(strategy.seconds)},
                               {"graph", text_of(strategy)}});
        fmt::print(
            "{}\n",
            nlohmann::ordered_json{
                {"seconds", found.found.seconds},
                {"given_seconds", seconds_json(found.given)},
                {"uniform_seconds", uniform.empty() ? nlohmann::ordered_json() : uniform[0]["seconds"]},
                {"uniform_strategy", uniform.empty() ? nlohmann::ordered_json() : uniform[0]["strategy"]},
                {"uniform", uniform},
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
