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
        dump_dir;       ///< folder for NN-pass.graph files, one per pass that changed the graph; empty: none
    bool verify = true; ///< false: for one of many plans of which only the bytes matter
};

struct PassRecord {
    std::string name;
    Seconds seconds = 0;
    bool skipped = false;
    bool changed = false;
};

class PassRunner {
public:
    explicit PassRunner(RunnerConfig config = {}) : config_(std::move(config)) {}

    /// `pass` takes the graph and returns the new one, which must verify at `level`. If it does not, throws
    /// InternalError, because a pass that breaks a graph is a bug; or UserError if an earlier pass was
    /// skipped.
    Graph run(const std::string& name, Level level, Graph graph, const std::function<Graph(Graph)>& pass);
    /// The same for a pass that makes a new graph from another one, which stays.
    Graph derive(const std::string& name, Level level, const Graph& from,
                 const std::function<Graph(const Graph&)>& pass);

    const std::vector<PassRecord>& records() const { return records_; }

private:
    bool skips(const std::string& name);
    Graph checked(const std::string& name, Level level, const std::function<Graph()>& pass);

    RunnerConfig config_;
    std::vector<PassRecord> records_;
    std::string last_text_;
};

} // namespace trivium
