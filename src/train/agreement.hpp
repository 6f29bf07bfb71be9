#pragma once
// What the ranks of a run must have in common.
#include "config/run_config.hpp"
#include "io/tokens/token_store.hpp"
#include "mpi/comm.hpp"

#include <string>

namespace trivium {

/// Throws, on all ranks, where some rank has another config than rank 0: its first line that differs.
void require_same_config(Comm& world, const RunConfig& config);

/// Throws, on all ranks, where some rank's store is not rank 0's: another size, vocabulary or tokenizer, or
/// other tokens (by the hashes that the store has of them).
void require_same_data(Comm& world, const std::string& path, const TokenStore& store);

/// Throws, on all ranks, where one of them does not see, or cannot write to, what rank 0 has in `dir`.
void require_shared_folder(Comm& world, const std::string& dir);

} // namespace trivium
