#pragma once
// How many CPU threads a rank has.
#include "config/run_config.hpp"

namespace trivium {

/// parallel.threads, or this rank's share of the cores that it may use, which as many ranks as `sharers` may
/// use. `limit`: threads that a rank of this build can have. Throws UserError where parallel.threads is more
/// than that.
int thread_count(const ParallelConfig& config, int limit, int sharers = 1);

} // namespace trivium
