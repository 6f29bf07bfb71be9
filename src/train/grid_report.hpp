#pragma once
// What a run says about its grid, and what its ranks must have in common.
#include "mpi/grid.hpp"
#include "train/compile.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Throws, on all ranks, where some rank was given another config than rank 0: its first line that differs.
void require_same_config(Comm& world, const RunConfig& config);

/// "data 2 x pipeline 2 x tensor 2, 1f1b, zero 1, sequence parallel"
std::string describe_grid(const ParallelConfig& config);

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage its blocks,
/// parameters and memory per rank. All ranks call it; rank 0 gets the lines, the others none.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled);

} // namespace trivium
