#pragma once
// Internal: a tiny model trained for a few steps on a grid of ranks, with data that follow from the seed.
#include "check/run.hpp"

namespace trivium {

/// A rank's part of a parameter, before the first step and after the last.
struct HeldPart {
    std::string name;
    Shape whole;
    Box box;
    std::vector<double> initial, last;
};

/// What came of it: the same losses and norms (of the mean gradient) on all ranks, a line a step, and what
/// this rank holds.
struct TinyOutcome {
    std::vector<double> losses, norms;
    std::vector<HeldPart> parameters;
};

inline constexpr int tiny_steps = 3;

/// What rank `rank` of the grid runs. Throws UserError where this version does not build the config.
Compiled compile_tiny(const RunConfig& config, int rank);

/// All ranks of `ranks` call it with the config of one case, whose grid has as many, and what they compiled
/// of it. Numbers of parameters follow from (seed, name, global index), the tokens of a step from (seed,
/// step, global index): the same on any grid. Throws what an executor throws.
TinyOutcome train_tiny(Comm& ranks, const RankFacts& facts, const RunConfig& config, Compiled compiled);

/// Largest differences from one rank that rounding explains, by precision of computation and of reduction.
/// Losses and norms as the project's own tests have them; parameters in units of the steps' learning rates.
struct CheckTolerance {
    double losses = 0, parameters = 0;
};
CheckTolerance tolerance_of(const RunConfig& config);

/// How far an outcome is from the one-rank outcome of the same model.
struct TinyDifference {
    double losses = 0, norms = 0; ///< relative, of the step where they are largest
    int step = 0;                 ///< the first one, from 1 on, where either is beyond the tolerance; 0: none
    double parameters = 0;
    std::string parameter; ///< of which that is the largest
    std::string initial;   ///< a parameter that did not begin with the same bits; "" where all did
};
/// Infinite where something is not finite or not there.
TinyDifference compare(const TinyOutcome& got, const TinyOutcome& one_rank, const RunConfig& config);

} // namespace trivium
