#pragma once
// Number of CPU threads of a rank.
#include "config/run_config.hpp"

namespace trivium {

/// parallel.threads or, if that is 0, this rank's share of the cores that it shares with `sharers` ranks.
/// `limit`: maximum threads per rank in this build. Throws UserError if parallel.threads exceeds `limit`.
int thread_count(const ParallelConfig& config, int limit, int sharers = 1);

} // namespace trivium
