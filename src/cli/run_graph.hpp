#pragma once
// `trivium explain FILE.graph --run`.
#include "plan/machine.hpp"

#include <string>

namespace trivium {

struct GraphRunArguments {
    std::string file;
    Machine machine; ///< on which it is fast: it decides how ops are sharded, as for explain
    bool run = false;
    std::string inputs, outputs; ///< safetensors files; empty: none
    u64 seed = 0;
    bool json = false;
};

/// Runs the graph on all ranks and prints how its outputs differ from those of the unpartitioned program.
/// Returns the exit status. In the planner build it throws UserError.
int run_graph(const GraphRunArguments& arguments);

} // namespace trivium
