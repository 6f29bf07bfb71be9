#pragma once
// `trivium explain FILE.graph --run`, and what `trivium graph` does with safetensors files.
#include "plan/machine.hpp"
#include "stablehlo/import.hpp"

#include <string>

namespace trivium {

struct GraphRunArguments {
    std::string file;
    Machine machine; ///< decides how ops are sharded (on which machine they are fast), as for explain
    bool run = false;
    std::string inputs, outputs; ///< safetensors files; empty: none
    u64 seed = 0;
    i64 repeats = 0; ///< further runs, which are timed
    Seconds delay_latency = 0;
    double delay_bandwidth = 0; ///< bytes per second; 0: unlimited
    bool json = false;
};

/// Runs the graph on all ranks and prints how its outputs differ from those of the unpartitioned program.
/// Without a launcher, ranks are threads of this process (not in builds for devices). Returns the exit
/// status. Throws UserError in the planner build.
int run_graph(const GraphRunArguments& arguments);

/// Writes constants of `trivium graph import` to a safetensors file. Throws UserError in the planner build.
void write_contents(const std::string& file, const std::vector<HloContents>& contents);

} // namespace trivium
