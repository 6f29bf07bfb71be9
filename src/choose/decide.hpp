#pragma once
// Everything in a config that is "auto", decided in one place, before anything of the run is compiled.
#include "choose/estimator.hpp"

namespace trivium {

/// Decides, in this order: the schedule with its microbatch and its updates (choose_schedule.hpp), what is
/// recomputed and when parameters are gathered and gradients reduced (memory_policy.hpp), which collectives
/// travel together (choose_buckets.hpp). The grid is the config's; choose_grid.hpp finds others. The same on
/// all ranks. \pre resolved and validated
/// Throws UserError if the model does not fit the grid, or if the largest rank needs more than
/// parallel.memory_limit: then with tested settings that fit.
Choices decide(const RunConfig& config, Estimator& estimator);
/// The same, by compiling for this machine.
Choices decide(const RunConfig& config, const Machine& machine);

/// decide() for the machine of `options`, and compile_training() of what it chose.
Compiled compile_training(const RunConfig& config, const CompileConfig& options);

} // namespace trivium
