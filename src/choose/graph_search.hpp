#pragma once
// Searches shardings for a program of tensor ops: which factor of each product, convolution or other
// contraction is sharded over which mesh axis. FlexFlow's dimensions of an op (Jia et al. 2019,
// arXiv:1807.05358, section 4: samples, operators' attributes and parameters), as annotations that
// propagation completes.
#include "plan/graph_file.hpp"

#include <functional>

namespace trivium {

struct GraphSearchConfig {
    Machine machine;
    i64 threads = 1;          ///< of a rank
    std::size_t tries = 2000; ///< programs that are compiled and simulated, at most
    std::function<void(const std::string&)> progress{};
};

struct GraphSearchResult {
    Graph graph;                    ///< the given one with further annotations
    std::vector<ValueId> annotated; ///< the values that have them
    Seconds given = 0, found = 0;   ///< simulated times of the given graph, and of `graph`
    Seconds uniform = 0;            ///< of the best strategy that treats all ops alike
    std::string uniform_strategy;   ///< "x: samples, y: outputs"
    std::size_t simulated = 0;
};

/// \pre `graph` is that of all ranks, from read_graph(). What it annotates stays as it is. Each candidate is
/// compiled for rank 0, which has the largest shards, and simulated; one whose arena exceeds a device's
/// memory does not count. From the uniform strategies (for each axis: all ops shard their samples, their
/// outputs, or what they contract) and from propagation alone, the search changes the strategy of one op, of
/// all ops of one form in repeated blocks, or of two ops in a row along one axis, as long as the time gets
/// shorter. Deterministic. \throws UserError if the given graph has no program, or nothing that was tried
/// fits
GraphSearchResult search_shardings(const Graph& graph, const GraphSearchConfig& config);

} // namespace trivium
