#pragma once
// The sub-commands: each function adds its command to the program. `build` and `version` are the program's
// version, for checkpoints and reports.
#include "cli/command_line.hpp"

#include <functional>

namespace trivium {

class Comm;

void add_plan_command(Command& program);
void add_explain_command(Command& program);
void add_graph_command(Command& program);
void add_metrics_command(Command& program);
/// train, check, eval, generate, serve, data, checkpoint; in the planner build, stubs that report what is
/// missing.
void add_runtime_commands(Command& program, const std::string& build);

void add_data_command(Command& program);
void add_train_command(Command& program, const std::string& build);
void add_check_command(Command& program, const std::string& version);
void add_eval_command(Command& program);
void add_generate_command(Command& program);
void add_serve_command(Command& program);
void add_checkpoint_command(Command& program, const std::string& build = "");
/// Sub-commands of `data`.
void add_data_tokenize(Command& data);
void add_data_join(Command& data);
void add_data_arrays(Command& data);
void add_data_show(Command& data);
void add_data_verify(Command& data);
/// Sub-commands of `checkpoint`.
void add_diff_command(Command& checkpoint);
void add_prune_command(Command& checkpoint);
void add_average_command(Command& checkpoint);
void add_export_command(Command& checkpoint);
void add_import_command(Command& checkpoint, const std::string& build);

/// For commands that run on one rank: under a launcher, rank 0 runs `work` and the other ranks wait.
int on_first_rank(const std::function<int()>& work);
/// For commands that compute on all ranks that were started: each runs `work`. Rank 0 prints and logs.
int on_all_ranks(const std::function<void(Comm& world)>& work);

} // namespace trivium
