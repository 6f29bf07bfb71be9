#pragma once
// Makes one rank's program from that of all ranks: local shapes, explicit collectives. Sharded graph in,
// local graph out.
#include "ir/graph.hpp"

namespace trivium {

/// What a FLOP costs, in the bytes that a rank could send in the same time (work_prices() of plan/cost.hpp).
/// The defaults are those of the machine "cpu".
struct WorkPrices {
    double f32 = 5. / 150, bf16 = 5. / 250, f64 = 5. / 10;

    double flop(DType type) const { return type == DType::f64 ? f64 : type == DType::bf16 ? bf16 : f32; }
};

struct PartitionConfig {
    Coordinates at; ///< the rank, on the graph's mesh
    std::string stage_axis =
        pipeline_axis; ///< an axis that shards no dimension: each of its ranks has its own graph
    bool once =
        false; ///< the microbatch region runs once: to move a weight there costs no more than other values
    std::vector<int> stage_of_block{}; ///< of a graph that does not say it
    WorkPrices work{};
};

/// For each op it chooses which axes shard which factors: the choice that moves the fewest bytes, work
/// included (Pricing::work), where values of lifetime run or step are not moved within a microbatch (GSPMD,
/// arXiv:2105.04663, section 4). A result whose factor was summed away is partial. It is reduced when an op
/// needs the whole sum, if possible directly into the shards of its sharding (a reduce-scatter). Sums of
/// partial values stay partial. Values that were gathered in the forward phase are not kept for the backward
/// phase but gathered again.
Graph partition(const Graph& graph, const PartitionConfig& config);

} // namespace trivium
