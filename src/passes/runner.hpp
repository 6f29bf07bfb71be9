#pragma once
// One runner wraps every pass: it skips passes by name, times them, verifies their results, and dumps the
// graph after each change.
#include "ir/verify.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trivium {

struct RunnerConfig {
    std::vector<std::string> skip; ///< passes not to run, by name
    std::string
        dump_dir;       ///< folder for NN-PASS.graph files, one per pass that changed the graph; empty: none
    bool verify = true; ///< false: for one of many plans of which only the bytes matter
};

struct PassRecord {
    std::string name;
    Seconds seconds = 0;
    bool skipped = false;
    bool changed = false; ///< the text of the graph changed; false without RunnerConfig::dump_dir
};

class PassRunner {
public:
    /// `before`: records of passes that ran already.
    explicit PassRunner(RunnerConfig config = {}, std::vector<PassRecord> before = {})
        : config_(std::move(config)), records_(std::move(before))
    {
    }

    /// Returns pass(graph), or `graph` if the pass is skipped. If the result does not verify at `level`,
    /// throws InternalError, because a pass that breaks a graph is a bug; or UserError if a pass was
    /// skipped, or if the graph is from a file, whose annotations may contradict each other. Throws IoError
    /// if the dump cannot be written.
    Graph run(const std::string& name, Level level, Graph graph, const std::function<Graph(Graph)>& pass);
    /// As run(), for a pass that makes a new graph from `from`, which does not change.
    Graph derive(const std::string& name, Level level, const Graph& from,
                 const std::function<Graph(const Graph&)>& pass);

    const std::vector<PassRecord>& records() const { return records_; }

private:
    bool skips(const std::string& name, Level level, const Graph& graph);
    Graph checked(const std::string& name, Level level, const std::function<Graph()>& pass);

    RunnerConfig config_;
    std::vector<PassRecord> records_;
    std::string last_text_;
};

} // namespace trivium
