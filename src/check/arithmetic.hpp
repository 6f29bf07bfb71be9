#pragma once
// Internal: the same work on each rank, compared over ranks and with what is known to be right.
#include "check/parts.hpp"

namespace trivium {

/// What a rank says of one piece of work.
struct KernelWord {
    std::string kernel;
    std::string bits; ///< hash of what it gave
    double error = 0; ///< against straight loops in f64; of what has none, 0
    double tolerance = 0;
    bool stable = true; ///< the same bits each time
};

/// Hash of numbers.
std::string bits_of(const std::vector<double>& numbers);

/// Names ranks that are wrong, that are not the same each time, or that have other bits than most of their
/// kind. `words`: by rank, of which some may lack some kernels. \pre report.facts has them
void judge_arithmetic(CheckReport& report, const std::vector<std::vector<KernelWord>>& words);

/// All ranks call it, each with its own; judged on rank 0.
void compare_arithmetic(const CheckGround& ground, const std::vector<KernelWord>& own, CheckReport& report);

} // namespace trivium
