#pragma once
// Costly communication of a graph, and the annotations that would avoid it.
#include "passes/sharding/partition.hpp"
#include "plan/collective_list.hpp"

namespace trivium {

struct Advice {
    CollectiveEntry collective;
    double share = 0;       ///< bytes sent / bytes of all tensors of a rank
    std::string value;      ///< to annotate; empty: no annotation that was tried sends less
    TensorType type;        ///< of `value`
    int line = 0;           ///< of the definition of `value` in the graph's file
    std::string annotation; ///< "<data,->"
    Bytes saved = 0;        ///< of the bytes that a rank sends in the whole program
};

/// For each collective of rank 0 that sends more than `share` of the bytes of the rank's tensors: the
/// annotation of the moved value with which the whole program sends least, of equal ones the one with the
/// smallest shards. Tries to leave out the axes of the collective, to shard another dimension over them, and
/// to shard the result as the operand. Compiles at most `tries` programs, fewer on a large mesh. `graph`: of
/// all ranks, before propagation; `decided`: decided_graph() of it.
std::vector<Advice> advise(const Graph& graph, const Graph& decided, double share, int tries = 64,
                           const WorkPrices& work = {});

} // namespace trivium
