#pragma once
// A grid for the ranks that there are: for `plan --ranks`, or when a run comes back on more or fewer than its
// config was written for.
#include "config/run_config.hpp"
#include "plan/machine.hpp"

#include <optional>
#include <vector>

namespace trivium {

/// `config` with data, pipeline and tensor degrees for at most `ranks` ranks. Its own where they make up that
/// number; else, of all grids that the model and the global batch admit, the one with the best estimate of
///   ranks x balance of the layers over the stages x share of the schedule that is no bubble,
/// less three tenths for each doubling or halving of the tensor degree, which is a multiple or a part of the
/// config's, and far less for another tensor degree that does not divide heads and feed-forward width or the
/// ranks of a node; powers of two come first. Grids that cut the model into fewer parts than the config does
/// are taken only where there is no other. A rank of each stage keeps parallel.memory_limit, and where some
/// grid does that too, `memory`: bytes that a rank has for what bytes_wanted counts (0: not known). A
/// train.micro_batch of 0 becomes the largest part of a data rank's share that is no more than on the
/// config's grid. The global batch, and with it the order of samples, stays. Deterministic. All functions
/// here take a validated config.
/// \throws UserError where no grid is found
RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory = 0,
                      const Machine& machine = machine_called(default_machine()));

/// How many grids to compile: of the best, then of those that take least memory.
struct GridEffort {
    int best = 12, smallest = 4;
};

/// A grid for at most `ranks` ranks, as choose_grid does, but none where no grid keeps `memory`.
std::optional<RunConfig> grid_that_fits(const RunConfig& config, i64 ranks, Bytes memory,
                                        const Machine& machine, const GridEffort& effort);

/// What bytes_wanted says of the largest stage of the grid that `config` has; none where that is more than
/// `most` (0: whatever it is), where the arena exceeds parallel.memory_limit, or where the model does not fit
/// the grid.
std::optional<Bytes> bytes_of_largest(const RunConfig& config, const Machine& machine, Bytes most);

/// For each stage, what the arena of its ranks has at least, without compiling: parameters, moments, and of
/// the microbatches in flight what gradients need.
std::vector<Bytes> least_bytes_of_stages(const RunConfig& config);

/// What a plan takes of the memory that its rank has: a device's, where the process has its share too, or the
/// host's, where a snapshot stands beside the arena.
Bytes bytes_wanted(const MemoryPlan& plan, const Machine& machine);

} // namespace trivium
