#pragma once
// The log lines about the grid of a run.
#include "compile/compile.hpp"
#include "mpi/grid.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage
/// its blocks, parameters and memory per rank. All ranks call it; only rank 0 gets lines.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled);

} // namespace trivium
