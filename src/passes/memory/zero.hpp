#pragma once
// ZeRO (arXiv:1910.02054, section 5) as shardings over the data axis. The pass `optimizer` shards the states
// (stage 1), and propagation the parameters like them; `autodiff` shards gradients (stage 2); this file moves
// the gathers of parameters into microbatches (stage 3).
#include "passes/sharding/axis_parts.hpp"

namespace trivium {

/// Shards tensors further over an axis: over its largest part of which no part shards them yet.
/// The first open dimension that divides evenly takes this part of the axis, otherwise the one with the
/// longest shards that have an index for each rank. If there is none, although the tensor has an element for
/// each rank, the part is divided into primes, each of which goes to a dimension by the same rule, and ranks
/// along what is left over have the same shard.
class FurtherSharding {
public:
    /// The graph's mesh must outlive this. Axes are divided as its sub-axes require.
    FurtherSharding(const Graph& graph, std::string axis);
    /// As above, of a graph that names these sub-axes.
    FurtherSharding(const Mesh& mesh, const std::vector<std::string>& names, std::string axis);

    /// `sharding`, of a tensor of this shape, with the axis in addition. Closes all dimensions.
    Sharding operator()(Sharding sharding, const Shape& shape) const;

private:
    class Dims;
    /// The largest part of the axis that shards no dimension, of neighbouring ones the whole.
    PartList free_parts(const Sharding& sharding) const;

    const Mesh& mesh_;
    AxisParts parts_;
    std::string axis_;
};

/// Whether `axis`, or a part of it, shards some dimension.
bool shards(const Sharding& sharding, const std::string& axis);

/// Whether several ranks along `axis` have the same shard of a tensor with this sharding.
bool is_shared(const Sharding& sharding, const Mesh& mesh, const std::string& axis);

/// Moves the reshard ops of parameters from the prologue into the microbatches: one in each block that reads
/// the parameter, before its first reader. So a rank holds a gathered parameter only while a block uses it.
/// Global graph in and out. Runs before autodiff().
Graph gather_in_microbatches(Graph graph);

} // namespace trivium
