#pragma once
// Programs of their own for the norms of weights and of their updates, so that steps without norms are what
// they would be without these programs.
#include "ir/graph.hpp"

#include <string>
#include <vector>

namespace trivium {

struct NormPrograms {
    Graph remember; ///< keeps each trained parameter P in the state `last.P`, sharded as P
    /// The output `norms`, f64[2 n] of the n parameters of norm_parameters(): the sums of squares of their
    /// content, then those of its difference from what is kept.
    Graph norms;
};

/// `train`: the graph of all ranks after the pass `optimizer`. The results are global graphs.
NormPrograms norm_programs(const Graph& train);

/// The trained parameters of such a graph, in the order of the squares of their gradients in `totals`.
std::vector<std::string> norm_parameters(const Graph& train);

} // namespace trivium
