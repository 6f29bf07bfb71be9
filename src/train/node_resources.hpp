#pragma once
// Resources that the ranks of a node share: its memory, its devices' memory, its cores.
#include "config/run_config.hpp"
#include "mpi/grid.hpp"

#include <string>

namespace trivium {

/// Throws, on all ranks, if the arenas of ranks that share a memory exceed its free bytes. Ranks of a node
/// share the node's memory, or that of the same `device`. `arena`: bytes of this rank's arenas.
void require_free_memory(const Grid& grid, const std::string& device, Bytes arena);

/// Throws, on all ranks, if the memory of all nodes together is too small for the parameters, moments and
/// gradients, or if parallel.memory_limit is too small for a rank's share. A check before the compilation,
/// which may take minutes.
void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config);

/// Free bytes per rank if the ranks that share a node's or a device's memory get equal shares: the minimum
/// over all ranks, so the same on all. 0 if unknown. All ranks call it. On devices, makes the rank's device
/// current.
Bytes share_of_memory(Comm& world);

/// Number of ranks on this rank's node, itself included, that may use the same cores. All ranks call it.
int ranks_on_same_cores(const Grid& grid);

/// The devices, or the cores under `threads` threads per rank, with which all ranks together compute. What
/// ranks share counts once. `device`: as in require_free_memory. All ranks call it.
double computing_units(const Grid& grid, const std::string& device, int threads);

} // namespace trivium
