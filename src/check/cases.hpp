#pragma once
// Internal: which tiny trainings a check runs. Levels of a key are those that its type has and this version
// builds: a new schedule or ZeRO stage joins by itself.
#include "check/run.hpp"

namespace trivium {

/// A training on ranks [first, first + its grid's) of the world.
struct CheckCase {
    RunConfig config;
    int first = 0;

    int ranks() const { return static_cast<int>(rank_count(config.parallel)); }
    std::string text() const;
};

struct CheckCases {
    std::vector<CheckCase> cases;
    std::vector<std::string> not_built; ///< what this version refuses, e.g. "parallel.zero = 2"
};

/// For `ranks` ranks: every grid that they make, with tensor and pipeline degrees of at most 8; where there
/// are fewer than six such, also those of the next lower number of ranks that has six. On each grid both
/// families as a user has them who sets no key, in f32; and every pair of levels of any two keys in some case
/// where both change what runs, which is computed or sent in bf16 only where that is one of the two.
/// `longer`: also every combination of grid, ZeRO stage, schedule, family and precision.
CheckCases check_cases(int ranks, bool longer);

/// The same model and batch on one rank, in one microbatch.
RunConfig on_one_rank(const RunConfig& config);
/// What names the model, the batch and the precision: cases that have it alike have one answer.
std::string answer_key(const RunConfig& config);

/// What a case exercises, each as words: "data > 1", "zero 1", "bucket block", "bf16".
std::vector<std::string> traits_of(const RunConfig& config);

} // namespace trivium
