#pragma once
// Internal: trains a tiny model for a few steps on a grid of ranks, with data that depend on the seed only.
#include "check/run.hpp"
#include "runtime/samples.hpp"

namespace trivium {

/// A rank's shard of a parameter, before the first step and after the last.
struct HeldPart {
    std::string name;
    Shape whole;
    Box box;
    std::vector<double> initial, last;
};

/// Result of a training: losses and norms (of the mean gradient) per step, the same on all ranks, and this
/// rank's shards.
struct TinyOutcome {
    std::vector<double> losses, norms;
    std::vector<HeldPart> parameters;
};

inline constexpr int tiny_steps = 3;

/// The programs of rank `rank`. Throws UserError if this version does not support the config.
Compiled compile_tiny(const RunConfig& config, int rank);

/// The sequences of a step: they depend on (seed, step, global index).
Batch tiny_batch(const RunConfig& config, int step);

/// Collective over `ranks`: runs the config of a case, whose grid has as many ranks. Parameters depend on
/// (seed, name, global index), the tokens of a step on (seed, step, global index): the same on any grid.
/// Throws the errors of an executor.
TinyOutcome train_tiny(Comm& ranks, const RankFacts& facts, const RunConfig& config, Compiled compiled);

/// Tolerances for differences from one rank, by precision of computation and of reduction: of losses and
/// norms relative, as in the project's tests; of parameters in units of the sum of the learning rates.
struct CheckTolerance {
    double losses = 0, parameters = 0;
};
CheckTolerance tolerance_of(const RunConfig& config);

/// Difference between a result and the one-rank result of the same model.
struct TinyDifference {
    double losses = 0, norms = 0; ///< relative, the largest of all steps
    int step = 0;                 ///< the first step (from 1) at which either exceeds the tolerance; 0: none
    double parameters = 0;        ///< largest difference after the last step, in the units of CheckTolerance
    std::string parameter;        ///< the parameter with the largest difference
    std::string initial;          ///< a parameter with different initial bits; "" if there is none
};
/// A difference is infinite if a value is not finite. Throws InternalError if the numbers of steps differ, or
/// if `one_rank` lacks a parameter.
TinyDifference compare(const TinyOutcome& got, const TinyOutcome& one_rank, const RunConfig& config);

} // namespace trivium
