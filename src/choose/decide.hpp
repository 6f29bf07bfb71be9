#pragma once
// Decides every "auto" of a config in one place, before the run's programs are compiled.
#include "choose/estimator.hpp"

namespace trivium {

/// Decides, in this order: the form of attention among context ranks, the schedule with its microbatch and
/// its updates (choose_schedule.hpp), what is recomputed and when parameters are gathered and gradients
/// reduced (memory_policy.hpp), which collectives are merged (estimator.cpp). Does that again with the slower
/// form if only that fits parallel.memory_limit. The grid is the config's; search.hpp finds others.
/// Deterministic: all ranks decide alike, without communication. \pre resolved and validated \throws
/// UserError if the schedule or, where it compiles, the model does not fit the grid, or if the largest rank
/// needs more than parallel.memory_limit: then with tested settings that fit.
/// `known`: what context_form_of() returns, if that is known.
Choices decide(const RunConfig& config, Estimator& estimator, ContextForm known = ContextForm::automatic);
/// decide() with Compiling(machine).
Choices decide(const RunConfig& config, const Machine& machine);
/// What parallel.context_form = "auto" stands for unless only the other one fits: the form with the shorter
/// step, by rough scores on one order; gather if both take as long, and on devices. Another form stays.
ContextForm context_form_of(RunConfig config, Estimator& estimator);

/// decide() for the machine of `options`, then compile_training() of the Choices.
Compiled compile_training(const RunConfig& config, const CompileConfig& options);

} // namespace trivium
