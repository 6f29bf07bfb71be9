#pragma once
// Internal: kernels on seeded numbers, beside what straight loops in f64 make of the same numbers.
#include "kernels/exec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trivium {

/// What a kernel gave, and what it should have given.
struct KernelResult {
    std::string kernel; ///< "product f32"
    std::vector<double> got, expected;
    double tolerance = 0; ///< of the largest difference, relative to the largest magnitude expected

    double error() const; ///< infinite where something is not finite
};

/// Runs each kernel where this build computes, and visits its result. The same numbers on every rank, and the
/// same bits on like processors. `seed`: of the numbers.
void run_kernels(int threads, std::uint64_t seed, const std::function<void(KernelResult&)>& visit);

} // namespace trivium
