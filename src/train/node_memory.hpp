#pragma once
// What the ranks of a node share: its memory, its devices' memory, its cores.
#include "config/run_config.hpp"
#include "mpi/grid.hpp"

#include <string>

namespace trivium {

/// Throws, on all ranks, where the arenas of ranks that share a memory are more than is free of it: a node's
/// ranks, or those that have one `device` of it. `arena`: this rank's.
void require_free_memory(const Grid& grid, const std::string& device, Bytes arena);

/// Throws, on all ranks, where the memory of all of them together is too small for the parameters, moments
/// and gradients, or parallel.memory_limit for a rank's share of them: to be told after minutes of compiling
/// would be late.
void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config);

/// Bytes that are free for each rank if those who share a node's memory, or a device's, take as much each:
/// the least of all ranks, so the same on all. 0 where it is not known. All ranks call it. On devices, makes
/// its device the rank's.
Bytes share_of_memory(Comm& world);

/// Ranks of this rank's node, itself included, that may use the same cores. All ranks call it.
int ranks_on_same_cores(const Grid& grid);

} // namespace trivium
