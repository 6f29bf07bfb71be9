#pragma once
// The config argument of a sub-command with its overrides, and how a run's config is completed.
#include "cli/command_line.hpp"
#include "config/run_config.hpp"

namespace trivium {

/// CONFIG.toml [key=value …] [--json]
struct ConfigArguments {
    std::string file;
    std::vector<std::string> overrides;
    bool json = false;

    /// Adds the arguments to `command`.
    void add_to(Command& command, bool with_json, bool required = true);
};

/// Reads the file and overrides, takes the vocabulary from the data or the tokenizer where the model leaves
/// it open, fills in the rules and validates. Throws UserError.
RunConfig load_config(const ConfigArguments& arguments);
/// The same for train, plan and explain, which are about a training run: warns (stderr) of what it would do
/// otherwise than the config says.
RunConfig load_training_config(const ConfigArguments& arguments);

/// Tokens in the vocabulary of the training data, or of the tokenizer where there is none yet.
i64 vocabulary_of(const DataConfig& data);

/// Threads that a rank of this build can have.
int thread_limit();

} // namespace trivium
