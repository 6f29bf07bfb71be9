#pragma once
// From the graph of all ranks to that of one: the passes that trainings and graph files share.
#include "passes/collectives/bucket.hpp"
#include "passes/pipeline/stage.hpp"
#include "passes/runner.hpp"
#include "passes/sharding/overlap_gathers.hpp"
#include "passes/sharding/partition.hpp"

namespace trivium {

/// The graph of the rank at `config.at`, before its collectives are merged: stage (if the stage axis has more
/// than one rank), partition, simplify, join_reductions(). `stages`: of `sharded`, if there is such an axis.
/// Names of passes get `suffix`.
Graph part_of_rank(const Graph& sharded, const PartitionConfig& config, StageGraphs* stages,
                   const std::string& suffix, PassRunner& runner);
/// Its part after `stage`, which gives `own`.
Graph part_of_stage(const Graph& own, const PartitionConfig& config, const std::string& suffix,
                    PassRunner& runner);

struct FinishConfig {
    BucketConfig buckets{};
    bool group = false;       ///< group_products()
    bool offload = false;     ///< offload_optimizer()
    OverlapSeconds overlap{}; ///< fill_waits() and overlap_halos(); empty: not
    bool ring = false;        ///< ring()
    GatherParts parts{};      ///< overlap_gathers(), if not ring()
};

/// From part_of_rank() to the graph that a rank runs: the passes of `config`, and fuse.
Graph finish_local(Graph graph, const FinishConfig& config, const std::string& suffix, PassRunner& runner);

} // namespace trivium
