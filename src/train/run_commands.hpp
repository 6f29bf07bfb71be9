#pragma once
// The sub-commands that run a model.
#include "runtime/device.hpp"
#include "train/command.hpp"

#include <functional>

namespace trivium {

/// For commands that run on one rank: under a launcher the first one works, the others wait for it.
int on_first_rank(const std::function<int()>& work);

/// What the planner knows of it.
Machine machine_of(const Computing& computing);

void add_train_command(Command& program, const std::string& build);
void add_check_command(Command& program, const std::string& version);
void add_eval_command(Command& program);
void add_generate_command(Command& program);
void add_checkpoint_command(Command& program, const std::string& build = "");
/// Sub-commands of `checkpoint`.
void add_diff_command(Command& checkpoint);
void add_prune_command(Command& checkpoint);
void add_export_command(Command& checkpoint);
void add_import_command(Command& checkpoint, const std::string& build);

} // namespace trivium
