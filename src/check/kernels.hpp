#pragma once
// Internal: kernels on seeded numbers, compared with simple loops in f64.
#include "kernels/exec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trivium {

/// Result of a kernel, and the expected result.
struct KernelResult {
    std::string kernel; ///< "product f32"
    std::vector<double> got, expected;
    double tolerance = 0; ///< maximum of error()

    /// Largest difference / largest expected magnitude; infinite if a value is not finite.
    double error() const;
};

/// Runs each kernel where this build computes (host or device) and visits its result. The operands depend on
/// `seed` only: results have the same bits on similar processors.
void run_kernels(int threads, std::uint64_t seed, const std::function<void(KernelResult&)>& visit);

} // namespace trivium
