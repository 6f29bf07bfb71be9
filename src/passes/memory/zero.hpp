#pragma once
// ZeRO (arXiv:1910.02054, section 5) as shardings over the data axis. The pass `optimizer` shards the states
// (stage 1), and propagation the parameters like them; `autodiff` shards gradients (stage 2); this file moves
// the gathers of parameters into microbatches (stage 3).
#include "ir/graph.hpp"

namespace trivium {

/// `sharding` with one of its open dimensions also sharded over `axis`: the first that divides evenly,
/// otherwise the one with the longest shards that have an index for each rank, otherwise none. If parts of
/// `axis` shard some already, over its largest other part. Closes all dimensions.
Sharding shard_further(Sharding sharding, const Shape& shape, const Mesh& mesh, const std::string& axis);

/// Whether `axis`, or a part of it, shards some dimension.
bool shards(const Sharding& sharding, const std::string& axis);

/// Whether several ranks along `axis` have the same shard of a tensor with this sharding.
bool is_shared(const Sharding& sharding, const Mesh& mesh, const std::string& axis);

/// Moves the reshard ops of parameters from the prologue into the microbatches: one in each block that reads
/// the parameter, before its first reader. So a rank holds a gathered parameter only while a block uses it.
/// Global graph in and out. Runs before autodiff().
Graph gather_in_microbatches(Graph graph);

} // namespace trivium
