#pragma once
// The sub-commands that run a model.
#include "train/command.hpp"

namespace trivium {

void add_train_command(CLI::App& app, Action& action, const std::string& build);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_checkpoint_command(CLI::App& app, Action& action);
void add_metrics_command(CLI::App& app, Action& action);

} // namespace trivium
