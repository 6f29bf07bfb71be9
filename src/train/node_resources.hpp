#pragma once
// Resources that ranks share: the memory of a node or a device, and cores.
#include "config/run_config.hpp"
#include "mpi/grid.hpp"

#include <string>

namespace trivium {

/// Collective: throws UserError, on all ranks, if the arenas of ranks that share a memory exceed its free
/// bytes. `device`: Computing::address(): ranks of a node with the same device share its memory, and without
/// one (empty) the node's. `arena`: bytes of this rank's arenas. `lower`: what
/// lowers them, "train.micro_batch".
void require_free_memory(const Grid& grid, const std::string& device, Bytes arena,
                         const std::string& lower = "train.micro_batch");

/// Collective: throws UserError, on all ranks, if the free memory of all nodes or devices together, or
/// parallel.memory_limit for a rank, is below a lower bound of the arenas (least_bytes_of_stages). A check
/// before the compilation, which may take minutes.
void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config);

/// Collective: free bytes per rank if the ranks that share a node's or a device's memory get equal shares;
/// the minimum over all ranks, so the same on all. 0 if unknown. On devices, makes the rank's device current.
Bytes share_of_memory(Comm& world);

/// Collective: ranks on the fullest node.
i64 most_ranks_of_a_node(Comm& world);

/// Collective: number of ranks on this rank's node, itself included, that may use the same cores.
int ranks_on_same_cores(const Grid& grid);

/// Collective: the number of devices, or of cores under `threads` threads per rank, with which all ranks
/// together compute. A shared device or core counts once. `device`: as in require_free_memory.
double computing_units(const Grid& grid, const std::string& device, int threads);

} // namespace trivium
