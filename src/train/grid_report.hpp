#pragma once
// What a run says about its grid.
#include "compile/compile.hpp"
#include "mpi/grid.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage
/// its blocks, parameters and memory per rank. All ranks call it; rank 0 gets the lines, the others none.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled);

} // namespace trivium
