#pragma once
// What a run says about its grid, and what its ranks must have in common.
#include "mpi/grid.hpp"
#include "train/compile.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Throws, on all ranks, where some rank was given another config than rank 0: its first line that differs.
void require_same_config(Comm& world, const RunConfig& config);

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage its blocks,
/// parameters and memory per rank. All ranks call it; rank 0 gets the lines, the others none.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled);

} // namespace trivium
