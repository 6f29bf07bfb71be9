#pragma once
// What the sub-commands share: the config argument with its overrides, and how a run's config is completed.
#include "config/run_config.hpp"
#include "train/compile.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trivium {

class Session;

/// CONFIG.toml [key=value …] [--json]
struct ConfigArguments {
    std::string file;
    std::vector<std::string> overrides;
    bool json = false;

    /// Adds the arguments to `command`; `with_json` adds --json.
    void add_to(CLI::App& command, bool with_json);
};

/// A sub-command's work; returns the exit status. Set by the parser, run by main.
using Action = std::function<int()>;

void add_plan_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
/// train, eval, generate, data, metrics; in the planner build, stubs that say what is missing.
void add_runtime_commands(CLI::App& app, Action& action, const std::string& build);

/// Reads the file and overrides, takes the vocabulary from the data or the tokenizer where the model leaves it
/// open, fills in the rules and validates. Throws UserError.
RunConfig load_config(const ConfigArguments& arguments);

/// Words of the training data, or of the tokenizer where there is none yet.
i64 vocabulary_of(const DataConfig& data);

/// CPU threads of this rank: parallel.threads, or the cores that it may use.
int thread_count(const ParallelConfig& config);

} // namespace trivium
