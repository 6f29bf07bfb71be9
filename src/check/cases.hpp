#pragma once
// Internal: the tiny trainings of a check. The values of enum keys come from their types, so new ones are
// included automatically; schedules, ZeRO stages and numbers are listed in cases.cpp.
#include "check/run.hpp"

namespace trivium {

/// A training on the world ranks from `first` to first + ranks() - 1.
struct CheckCase {
    RunConfig config;
    int first = 0;

    int ranks() const { return static_cast<int>(rank_count(config.parallel)); }
    std::string text() const;
};

/// For `ranks` ranks: every grid that they can form, with degrees of at most 8 except data; if there
/// are fewer than six such grids, also the grids of the next lower number of ranks that has six. On each
/// grid: Llama and GPT-2 with default settings in f32. In addition (also of mixes of families' options),
/// every pair of levels of any two keys occurs in some case where both have an effect; a case uses bf16 only
/// if bf16 is in the pair. `longer`: also every combination of grid, ZeRO stage, schedule, these two families
/// and precision.
std::vector<CheckCase> check_cases(int ranks, bool longer);

/// The same model and batch on one rank, in one microbatch.
RunConfig on_one_rank(const RunConfig& config);
/// Identifies model, batch, optimizer and precision: cases with equal keys have the same one-rank result.
std::string answer_key(const RunConfig& config);

/// The settings that a case exercises: "data > 1", "zero 1", "bucket block", "precision bf16".
std::vector<std::string> traits_of(const RunConfig& config);

} // namespace trivium
