#pragma once
// What a run says about its grid, and what its ranks must have in common.
#include "io/token_store.hpp"
#include "mpi/grid.hpp"
#include "train/compile.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Throws, on all ranks, where some rank was given another config than rank 0: its first line that differs.
void require_same_config(Comm& world, const RunConfig& config);

/// Throws, on all ranks, where some rank's store is not rank 0's: another size, vocabulary or tokenizer, or other tokens
/// (by the hashes that the store has of them).
void require_same_data(Comm& world, const std::string& path, const TokenStore& store);

/// Throws, on all ranks, where one of them does not see, or cannot write to, what rank 0 has in `dir`.
void require_shared_folder(Comm& world, const std::string& dir);

/// Throws, on all ranks, where the arenas of ranks that share a memory are more than is free of it: a node's ranks, or
/// those that have one `device` of it. `arena`: this rank's.
void require_free_memory(const Grid& grid, const std::string& device, Bytes arena);

/// Throws, on all ranks, where the memory of all of them together is too small for the parameters, moments and gradients, or
/// parallel.memory_limit for a rank's share of them: to be told after minutes of compiling would be late.
void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config);

/// Bytes that are free for each rank if those who share a node's memory, or a device's, take as much each: the least of all
/// ranks, so the same on all. 0 where it is not known. All ranks call it. On devices, makes its device the rank's.
Bytes share_of_memory(Comm& world);

/// Ranks of this rank's node, itself included, that may use the same cores. All ranks call it.
int ranks_on_same_cores(const Grid& grid);

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage its blocks,
/// parameters and memory per rank. All ranks call it; rank 0 gets the lines, the others none.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled);

} // namespace trivium
