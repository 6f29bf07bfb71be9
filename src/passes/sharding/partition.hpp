#pragma once
// Makes one rank's program from that of all ranks (SPMD): local shapes, explicit collectives. Sharded graph
// in, local graph out.
#include "ir/graph.hpp"

namespace trivium {

class MovePrices;

/// Price of a FLOP by element type: the bytes that a rank could send in the same time (work_prices() of
/// plan/cost.hpp). The defaults are those of the machine "cpu".
struct WorkPrices {
    double f32 = 5. / 150, bf16 = 5. / 250, f64 = 5. / 75;

    double flop(DType type) const { return type == DType::f64 ? f64 : type == DType::bf16 ? bf16 : f32; }
};

struct PartitionConfig {
    Coordinates at; ///< the rank, on the graph's mesh
    /// An axis that shards no dimension: each of its ranks has its own graph.
    std::string stage_axis = pipeline_axis;
    /// The microbatch region runs once: moving a weight in it costs as much as other values.
    bool once = false;
    std::vector<int> stage_of_block{}; ///< used if the graph has none
    WorkPrices work{};
    MovePrices* moves = nullptr; ///< prices that this partition shares with others; null: none
};

/// For each op without Op::division, chooses which axes shard which factors: the choice that moves the fewest
/// bytes, work included (Pricing::work), and does not move values of lifetime run or step within a microbatch
/// (GSPMD, arXiv:2105.04663, section 4). If an axis shards a reduced factor, the result is partial over it.
/// It is reduced when an op needs the complete value, if possible directly into the shards of its sharding (a
/// reduce-scatter). Sums of partial values stay partial. Values that were gathered in the forward phase are
/// not kept for the backward phase but gathered again; what was moved to shards of equal size is kept if one
/// op reads it.
/// \throws UserError if a value is annotated as partial but not computed so, an op cannot be sharded like the
/// buffer that it updates in place, or too many ranks would exchange boxes
Graph partition(const Graph& graph, const PartitionConfig& config);

} // namespace trivium
