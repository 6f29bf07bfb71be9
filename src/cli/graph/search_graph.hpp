#pragma once
// `trivium explain FILE.graph --search`.
#include "plan/machine.hpp"

#include <string>

namespace trivium {

struct GraphSearchArguments {
    std::string file, output; ///< `output`: for the annotated graph; empty: stdout
    Machine machine;
    bool search = false;
    i64 tries = 2000;
    bool json = false;
};

/// Writes the graph with the shardings that make its simulated time shortest. Returns the exit status. Throws
/// UserError for a graph of one rank or of a pipeline.
int search_graph(const GraphSearchArguments& arguments);

} // namespace trivium
