#pragma once
// The strategies of a training: values for the settings of [parallel] and the microbatch that a config leaves
// open.
#include "config/run_config.hpp"
#include "plan/machine.hpp"

#include <functional>
#include <vector>

namespace trivium {

/// Degrees of the grid for at most `ranks` ranks, and at least half of them. All degrees of the config if
/// their product is `ranks`; otherwise the given degrees (RunConfig::given) but that of data, if they divide
/// `ranks`; otherwise all are open. With replicas of a batch and tensors that the model allows.
std::vector<ParallelConfig> grids_for(const RunConfig& config, i64 ranks);

/// Settings that a search may change: those that neither a file nor an override sets.
struct OpenSettings {
    bool micro_batch = true, zero = true, shard = true, schedule = true, chunks = true, sequence = true,
         recompute = true, recompute_layers = true, gather_every = true, reduce_every = true, update = true,
         offload = true;
};
OpenSettings open_settings(const RunConfig& config);

/// Visits each legal combination of microbatch, ZeRO stage and group, sequence parallelism, schedule and
/// chunks on one grid; recomputation, gathers and reductions are those that need most memory and least time.
/// Given settings stay. Nothing in them is "auto" but parallel.bucket.
void for_each_strategy(const RunConfig& config, const ParallelConfig& grid, const Machine& machine,
                       const std::function<void(RunConfig)>& visit);

/// `config` with the settings that trade memory for time, in the order in which they are tried: fewer
/// gathers and reductions first, then selective and full recomputation of all layers. The first is
/// the config with those that need least time.
std::vector<RunConfig> memory_settings(const RunConfig& config);

} // namespace trivium
