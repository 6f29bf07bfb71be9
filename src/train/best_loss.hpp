#pragma once
// The best checkpoint of a run (checkpoint.best), and its early end (train.patience).
#include "io/checkpoint/checkpoint.hpp"
#include "train/data/training_data.hpp"
#include "train/evaluator.hpp"

namespace trivium {

/// Whether evaluations count in RunState::best.
bool judges_evaluations(const RunConfig& config);

/// Of a run that begins or continues: if checkpoint.best names another set than before, or the losses are of
/// other data or averages instead of the weights themselves, no loss counts yet.
void begin_judging(BestLoss& best, const RunConfig& config, const std::vector<ValidationSet>& sets);

/// Lets the evaluation after `step` count, once. Returns whether its loss, of the set checkpoint.best or
/// without one of all data, is the lowest so far. Losses that are not finite never are.
bool judge(BestLoss& best, const RunConfig& config, const std::vector<NamedEvaluation>& losses, i64 step);

/// Whether train.patience ends the run.
bool ends_early(const BestLoss& best, const RunConfig& config);

} // namespace trivium
