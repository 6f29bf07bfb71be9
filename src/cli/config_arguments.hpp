#pragma once
// The config argument of a sub-command with its overrides, and the completion of a run's config.
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

/// Reads the config file and the overrides, takes the vocabulary size from the data or the tokenizer if the
/// model does not set it, resolves and validates. Throws UserError.
RunConfig load_config(const ConfigArguments& arguments);
/// load_config() for train, plan and explain; also warns (stderr) about settings without effect on training
/// and about more threads than cores. With `searched`, not about settings of [parallel], which a search may
/// change; warnings_of_strategy() has those.
RunConfig load_training_config(const ConfigArguments& arguments, bool searched = false);
/// About settings of [parallel] without effect. If a search made `config` of `asked`: about those that were
/// given, and about degrees that it could not keep.
std::vector<std::string> warnings_of_strategy(RunConfig config, const RunConfig* asked);

/// Vocabulary size of the training data, or of the tokenizer if there is no data yet. Throws UserError; the
/// planner build knows only the tokenizer "bytes".
i64 vocabulary_of(const DataConfig& data);

/// Whether a token store of data.train has a mask of trained tokens; false if there is none yet, and in the
/// planner build, which does not read stores.
bool stores_have_masks(const DataConfig& data);

/// Maximum threads of a rank in this build.
int thread_limit();

} // namespace trivium
