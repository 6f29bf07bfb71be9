#pragma once
// ZeRO (arXiv:1910.02054, section 5) as shardings over the data axis. The optimizer's states are sharded by
// the pass `optimizer` (stage 1), and parameters follow by propagation; gradients by `autodiff` (stage 2);
// what is gathered where, here (stage 3).
#include "ir/graph.hpp"

namespace trivium {

/// `sharding` with one more of its open dimensions sharded over `axis`: the first that divides evenly,
/// otherwise the longest that has a row for each rank. Unchanged if there is none. Then all dimensions are
/// closed.
/// \pre `axis` shards no dimension
Sharding shard_further(Sharding sharding, const Shape& shape, const Mesh& mesh, const std::string& axis);

/// Whether `axis` shards some dimension.
bool shards(const Sharding& sharding, const std::string& axis);

/// Moves the reshard ops of parameters from the prologue into the microbatches: one in each block that reads
/// the parameter, before its first reader. So a rank holds a gathered parameter only while a block uses it.
/// Global graph in and out, before `autodiff`.
Graph gather_in_microbatches(Graph graph);

} // namespace trivium
