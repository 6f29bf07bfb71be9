#pragma once
// The measured ceiling: the best throughput of a fixed list of large products.
#include "kernels/gemm.hpp"

namespace trivium {

struct Peak {
    double flops_per_second = 0;
    i64 m = 0, n = 0, k = 0; ///< of the best product
};

/// Runs each product of the list for at least `seconds` on `threads` threads and takes its best time.
Peak measure_peak(DType type, int threads, double seconds);

} // namespace trivium
