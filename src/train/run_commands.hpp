#pragma once
// The sub-commands that run a model.
#include "train/command.hpp"

namespace trivium {

void add_train_command(Command& program, const std::string& build);
void add_eval_command(Command& program);
void add_generate_command(Command& program);
void add_checkpoint_command(Command& program);
void add_metrics_command(Command& program);

} // namespace trivium
