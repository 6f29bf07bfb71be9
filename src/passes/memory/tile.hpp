#pragma once
// Memory-centric tiling (ZeRO-Infinity, arXiv:2104.07857, section 5.1.3): a weight that is too large to
// gather at once is gathered, used and reduced in tiles. Global graph in and out.
#include "ir/graph.hpp"

namespace trivium {

struct TileConfig {
    Bytes bytes = 0;  ///< maximum bytes of a gathered weight
    std::string axis; ///< mesh axis over which the optimizer's states are sharded
};

/// Divides each larger weight that only separable ops (OpInfo) read, and these ops, into as few tiles as fit:
/// along the longest dimension that no axis shards, neither of the parameter nor where it is used. `axis`
/// must shard another dimension, so that a tile of a shard is a shard of the tile; a weight without two such
/// dimensions stays whole. Tiles of results are concatenated; sums over the divided dimension add in the
/// accumulator type. Runs before gather_in_microbatches().
Graph tile(Graph graph, const TileConfig& config);

} // namespace trivium
