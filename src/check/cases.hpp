#pragma once
// Internal: the tiny trainings of a check. The levels of a key come from its type, so new schedules and ZeRO
// stages are included automatically.
#include "check/run.hpp"

namespace trivium {

/// A training on ranks [first, first + its grid's) of the world.
struct CheckCase {
    RunConfig config;
    int first = 0;

    int ranks() const { return static_cast<int>(rank_count(config.parallel)); }
    std::string text() const;
};

/// For `ranks` ranks: every grid that they can form, with tensor and pipeline degrees of at most 8; if there
/// are fewer than six, also the grids of the next lower number of ranks that has six. On each grid: both
/// families with default settings in f32. In addition, every pair of levels of any two keys in some case
/// where both have an effect; a case uses bf16 only if that is one of the pair. `longer`: also every
/// combination of grid, ZeRO stage, schedule, family and precision.
std::vector<CheckCase> check_cases(int ranks, bool longer);

/// The same model and batch on one rank, in one microbatch.
RunConfig on_one_rank(const RunConfig& config);
/// Identifies model, batch and precision: cases with equal keys have the same one-rank result.
std::string answer_key(const RunConfig& config);

/// The settings that a case exercises: "data > 1", "zero 1", "bucket block", "bf16".
std::vector<std::string> traits_of(const RunConfig& config);

} // namespace trivium
