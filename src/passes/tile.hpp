#pragma once
// Memory-centric tiling (ZeRO-Infinity, arXiv:2104.07857, section 5.1.3): a weight that is too large to
// gather at once is gathered, used and reduced in parts.
#include "ir/graph.hpp"

namespace trivium {

struct TileConfig {
    Bytes bytes = 0;  ///< maximum bytes of a gathered weight
    std::string axis; ///< over which the optimizer's states are sharded
};

/// Divides each larger weight that only separable ops read, and these ops, into as many parts as necessary:
/// along the longest dimension that no axis shards where the weight is used. `axis` shards another dimension,
/// so that a part of a shard is a shard of the part; a weight without two such dimensions stays whole. Parts
/// of results are joined; sums over the divided dimension add in the accumulator type. Global graph in and
/// out, before gather_in_microbatches.
Graph tile(Graph graph, const TileConfig& config);

} // namespace trivium
