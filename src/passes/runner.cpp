#include "passes/runner.hpp"

#include "base/check.hpp"
#include "ir/text/text.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace trivium {

namespace {

void dump(const std::string& dir, std::size_t number, const std::string& name, const std::string& text)
{
    std::filesystem::create_directories(dir);
    const std::string file = str(dir, "/", number < 10 ? "0" : "", number, "-", name, ".graph");
    std::ofstream out(file);
    out << text;
    if (!out.flush())
        throw IoError({file, "cannot be written", "", "check the folder's permissions and free space"});
}

} // namespace

Graph PassRunner::run(const std::string& name, Level level, Graph graph,
                      const std::function<Graph(Graph)>& pass)
{
    if (skips(name, level, graph))
        return graph;
    return checked(name, level, [&] { return pass(std::move(graph)); });
}

Graph PassRunner::derive(const std::string& name, Level level, const Graph& from,
                         const std::function<Graph(const Graph&)>& pass)
{
    if (skips(name, level, from))
        return from;
    return checked(name, level, [&] { return pass(from); });
}

/// Records a pass that is to be skipped. What it would have changed must not be missing.
bool PassRunner::skips(const std::string& name, Level level, const Graph& graph)
{
    if (std::find(config_.skip.begin(), config_.skip.end(), name) == config_.skip.end())
        return false;
    records_.push_back({name, 0, true});
    try {
        verify(graph, level);
    } catch (const UserError& error) {
        throw UserError({"--skip " + name, "later passes require it", error.what(), "do not skip it"});
    }
    return true;
}

Graph PassRunner::checked(const std::string& name, Level level, const std::function<Graph()>& pass)
{
    PassRecord record{name};
    const auto begin = std::chrono::steady_clock::now();
    Graph graph = pass();
    record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    try {
        if (config_.verify)
            verify(graph, level);
    } catch (const UserError& error) {
        for (const PassRecord& before : records_)
            if (before.skipped)
                throw UserError({"--skip " + before.name, str("the pass '", name, "' requires it"),
                                 error.what(), "do not skip it"});
        if (!graph.file.empty())
            throw;
        throw InternalError(__FILE__, __LINE__, str("pass '", name, "' broke the graph: ", error.what()));
    }
    if (!config_.dump_dir.empty()) {
        std::string text = to_text(graph);
        record.changed = text != last_text_;
        if (record.changed)
            dump(config_.dump_dir, records_.size(), name, text);
        last_text_ = std::move(text);
    }
    records_.push_back(record);
    return graph;
}

} // namespace trivium
