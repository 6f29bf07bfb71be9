#pragma once
// Internal: the same computations on each rank, compared between ranks and with references.
#include "check/parts.hpp"

namespace trivium {

/// A rank's result for one kernel.
struct KernelRecord {
    std::string kernel;
    std::string bits; ///< hash of the result
    double error = 0; ///< relative to simple loops in f64; 0 without a reference
    double tolerance = 0;
    bool stable = true; ///< the same bits each time
};

/// Hash of numbers.
std::string bits_of(const std::vector<double>& numbers);

/// Reports ranks with wrong results, results that do not repeat, or bits that differ from most similar ranks.
/// `records`: by rank; may lack kernels. Reads report.facts.
void judge_arithmetic(CheckReport& report, const std::vector<std::vector<KernelRecord>>& records);

/// All ranks call it, each with its own results; rank 0 evaluates.
void compare_arithmetic(const CheckGround& ground, const std::vector<KernelRecord>& own, CheckReport& report);

} // namespace trivium
