#pragma once
// What the sub-commands share: the config argument with its overrides, and how a run's config is completed.
#include "config/run_config.hpp"
#include "train/command_line.hpp"
#include "train/compile.hpp"

namespace trivium {

/// CONFIG.toml [key=value …] [--json]
struct ConfigArguments {
    std::string file;
    std::vector<std::string> overrides;
    bool json = false;

    /// Adds the arguments to `command`.
    void add_to(Command& command, bool with_json, bool required = true);
};

void add_plan_command(Command& program);
void add_explain_command(Command& program);
void add_metrics_command(Command& program);
/// train, check, eval, generate, data, checkpoint; in the planner build, stubs that say what is missing.
void add_runtime_commands(Command& program, const std::string& build);

/// Reads the file and overrides, takes the vocabulary from the data or the tokenizer where the model leaves it
/// open, fills in the rules and validates. Throws UserError.
RunConfig load_config(const ConfigArguments& arguments);
/// The same for train, plan and explain, which are about a training run: warns (stderr) of what it would do otherwise than
/// the config says.
RunConfig load_training_config(const ConfigArguments& arguments);

/// Words of the training data, or of the tokenizer where there is none yet.
i64 vocabulary_of(const DataConfig& data);

/// Threads that a rank of this build can have.
int thread_limit();
/// CPU threads of this rank: parallel.threads, or its share of the cores that it may use, which as many ranks as `sharers`
/// may use. Throws UserError where that is more than thread_limit().
int thread_count(const ParallelConfig& config, int sharers = 1);
/// The cores that this process may use, as text.
std::string usable_cores();

} // namespace trivium
