#pragma once
// From the program of all ranks to that of one: local shapes, explicit collectives. Sharded graph in, local
// graph out.
#include "ir/graph.hpp"

namespace trivium {

struct PartitionConfig {
    Coordinates at;                         ///< the rank, on the graph's mesh
    std::string stage_axis = pipeline_axis; ///< shards no dimension: each of its ranks has a graph of its own
};

/// For each op it chooses which axes shard which factors: the choice that moves the fewest bytes, where what
/// is kept over the run or step is not moved within a microbatch (GSPMD, arXiv:2105.04663, section 4). A
/// result whose factor was summed away is partial; it is reduced when something needs the whole sum, straight
/// into the shards that its sharding asks for (a reduce-scatter) where it can; sums of partial values stay
/// partial. What was gathered in the forward phase is not kept for the backward phase but gathered again.
Graph partition(const Graph& graph, const PartitionConfig& config);

} // namespace trivium
