#pragma once
// Costly communication of a graph, and the annotations that would avoid it.
#include "passes/partition.hpp"
#include "plan/collective_list.hpp"

namespace trivium {

struct Advice {
    CollectiveEntry collective;
    double share = 0;       ///< of the bytes of all tensors of a rank
    std::string value;      ///< to annotate; empty: no annotation that was tried moves less
    TensorType type;        ///< of that value
    int line = 0;           ///< on which the graph's file defines it
    std::string annotation; ///< "<data,->"
    Bytes saved = 0;        ///< of all that a rank sends
};

/// For each collective that sends more than `share` of the bytes of a rank's tensors, the annotation of the
/// moved value with which the whole program sends least, and among equals has the smallest shards: tried are
/// those in which the axes that move are left out, or shard another dimension. `graph` is the graph of all
/// ranks before propagation, `decided` the one with which it runs (decided_graph). At most `tries` programs
/// are compiled.
std::vector<Advice> advise(const Graph& graph, const Graph& decided, double share, int tries = 64,
                           const WorkPrices& work = {});

} // namespace trivium
