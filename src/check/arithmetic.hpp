#pragma once
// Internal: the same computations on each rank, compared between ranks and with references.
#include "check/parts.hpp"

namespace trivium {

/// A rank's result for one kernel.
struct KernelRecord {
    std::string kernel;
    std::string bits; ///< hash of the result's numbers
    double error = 0; ///< relative difference from simple loops in f64; 0 without such a reference
    double tolerance = 0;
    bool stable = true; ///< every repetition gave the same bits
};

/// Hash of the numbers' bytes, in hexadecimal digits.
std::string bits_of(const std::vector<double>& numbers);

/// Reports ranks with wrong results, results that do not repeat, or bits that differ from those of most
/// similar ranks. `records`: by rank; a rank may lack kernels. Reads report.facts.
void judge_arithmetic(CheckReport& report, const std::vector<std::vector<KernelRecord>>& records);

/// Collective, each rank with its own results; rank 0 adds findings to its report.
void compare_arithmetic(const CheckGround& ground, const std::vector<KernelRecord>& own, CheckReport& report);

} // namespace trivium
