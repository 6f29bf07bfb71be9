#pragma once
// The best checkpoint of a run (checkpoint.best), and its early end (train.patience).
#include "io/checkpoint/checkpoint.hpp"
#include "train/data/training_data.hpp"
#include "train/evaluator.hpp"

namespace trivium {

/// Whether evaluations count in RunState::best.
bool judges_evaluations(const RunConfig& config);

/// Of a run that begins or continues: no loss counts yet if it cannot be compared with those to come.
/// Returns why; empty: they count, or there is none. `before`: the config with which they were found, as
/// RunState::config. UserError if that cannot be read.
std::string begin_judging(BestLoss& best, const std::string& before, const RunConfig& config,
                          const std::vector<ValidationSet>& sets);

/// Lets the evaluation after `step` count, once. Returns whether its loss, of the set checkpoint.best or
/// without one of all data, is the lowest so far. Losses that are not finite never are.
bool judge(BestLoss& best, const RunConfig& config, const std::vector<NamedEvaluation>& losses, i64 step);

/// Whether train.patience ends the run.
bool ends_early(const BestLoss& best, const RunConfig& config);

} // namespace trivium
