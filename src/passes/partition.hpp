#pragma once
// Makes one rank's program from that of all ranks: local shapes, explicit collectives. Sharded graph in,
// local graph out.
#include "ir/graph.hpp"

namespace trivium {

struct PartitionConfig {
    Coordinates at; ///< the rank, on the graph's mesh
    std::string stage_axis =
        pipeline_axis; ///< an axis that shards no dimension: each of its ranks has its own graph
    bool once =
        false; ///< the microbatch region runs once: to move a weight there costs no more than other values
    std::vector<int> stage_of_block{}; ///< of a graph that does not say it
};

/// For each op it chooses which axes shard which factors: the choice that moves the fewest bytes, where
/// values of lifetime run or step are not moved within a microbatch (GSPMD, arXiv:2105.04663, section 4). A
/// result whose factor was summed away is partial. It is reduced when an op needs the whole sum, if possible
/// directly into the shards of its sharding (a reduce-scatter). Sums of partial values stay partial. Values
/// that were gathered in the forward phase are not kept for the backward phase but gathered again.
Graph partition(const Graph& graph, const PartitionConfig& config);

} // namespace trivium
