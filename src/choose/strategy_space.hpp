#pragma once
// The strategies of a training: values for the settings of [parallel] and the microbatch that a config leaves
// open.
#include "config/run_config.hpp"
#include "plan/machine.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace trivium {

/// All divisors of a positive number, the smallest first.
std::vector<i64> divisors_of(i64 number);
/// Degrees of the axes that shard tensors: degrees_of() with one rank along the others.
std::vector<i64> tensor_degrees_of(ParallelConfig grid);

/// Degrees of the grid for at most `ranks` ranks, and at least half of them. All degrees of the config if
/// their product is `ranks`; otherwise the given degrees (RunConfig::given) but that of data, if they divide
/// `ranks`; otherwise all are open. With replicas of a batch and tensors that the model allows.
std::vector<ParallelConfig> grids_for(const RunConfig& config, i64 ranks);

/// Settings that a search may change: those that neither a file nor an override sets. Gathers and reductions
/// are open where they are "auto".
struct OpenSettings {
    bool micro_batch = true, zero = true, shard = true, schedule = true, chunks = true, sequence = true,
         recompute = true, recompute_layers = true, update = true, order = true;
};
OpenSettings open_settings(const RunConfig& config);

/// Visits each legal combination of microbatch, ZeRO stage and group, schedule and chunks on one grid; other
/// settings stay.
void for_each_strategy(const RunConfig& config, const OpenSettings& open, const ParallelConfig& grid,
                       const Machine& machine, const std::function<void(const RunConfig&)>& visit);

/// `config` with each combination of the open settings that trade memory for time: no, selective and full
/// recomputation of all layers, each with fewer gathers and reductions first. Nothing in them is "auto" but
/// parallel.bucket.
std::vector<RunConfig> memory_settings(const RunConfig& config, const OpenSettings& open);

/// `config` with the other order of its mesh, in which data and pipeline change places; nothing if that is
/// not open, or if groups along each axis have as many ranks on a node of `machine` as before. Axes that
/// shard tensors stay the fastest. Memory does not depend on the order.
std::optional<RunConfig> in_other_order(RunConfig config, const OpenSettings& open, const Machine& machine);
/// How many ranks of a group along an axis of the mesh share a node.
i64 ranks_on_node(const ParallelConfig& grid, std::string_view axis, i64 degree, const Machine& machine);

/// The name of the practice that a strategy follows; "" if none.
std::string rule_of(const RunConfig& config, const Machine& machine);

/// Equal for strategies whose closed forms are wrong for the same reasons, by the same nearly.
std::string kind_key(const RunConfig& config);
/// What distinguishes strategies: the settings that a search changes.
std::string key_of(const RunConfig& config);

/// Recomputation as a number of steps, each in one layer more: first selectively, then fully.
i64 recomputation_of(const RunConfig& config);
/// With so many of these steps, at most 2 * ModelConfig::repeated().
RunConfig with_recomputation(RunConfig config, i64 steps);

/// With ZeRO over all data ranks, and over groups of each power of two of them in which each expert has a
/// rank; but not as `config`. None without ZeRO, or if the config gives the groups.
std::vector<RunConfig> with_other_groups(const RunConfig& config, const OpenSettings& open);

/// Strategies on the grid of `strategy` that differ from it in one setting, of those that `config` leaves
/// open; with the same recomputation.
std::vector<RunConfig> neighbours(const RunConfig& strategy, const RunConfig& config,
                                  const OpenSettings& open, const Machine& machine);

} // namespace trivium
