#pragma once
// `trivium explain FILE.graph --search`, and of a training of a program.
#include "config/run_config.hpp"
#include "plan/machine.hpp"

#include <optional>

namespace trivium {

struct GraphSearchArguments {
    std::string file, output;        ///< `output`: for the annotated graph; empty: stdout
    std::optional<RunConfig> config; ///< the training, if `file` is its config
    Machine machine;
    bool search = false;
    i64 tries = 2000;
    bool json = false;
};

/// Writes the graph with the shardings that make its simulated time, or the step of the training, shortest.
/// Returns the exit status. Throws UserError for a graph of one rank or of a pipeline.
int search_graph(const GraphSearchArguments& arguments);

} // namespace trivium
