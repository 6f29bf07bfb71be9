#pragma once
// Chooses a grid for a number of ranks: for `plan --ranks`, and for a run that resumes on another number of
// ranks.
#include "choose/estimator.hpp"

#include <optional>
#include <vector>

namespace trivium {

/// `config` with data, pipeline and tensor degrees for at most `ranks` ranks. The config's own degrees if
/// their product is `ranks`. Otherwise, of all grids that the model and the global batch allow, the one that
/// maximises
///   ranks x balance of the layers over the stages x part of the schedule that is not bubble,
/// with these rules:
/// - The tensor degree is a multiple or a divisor of the config's; each doubling or halving costs three
///   tenths. Another degree that does not divide heads, feed-forward width or the ranks of a node costs far
///   more; powers of two come first.
/// - The model is sharded over at least as many ranks as in the config, if possible.
/// - The largest rank of each stage fits parallel.memory_limit and, if some grid does, `memory`: bytes
///   available to a rank for bytes_needed() (0: unknown).
/// - A train.micro_batch of 0 becomes the largest divisor of a data rank's share that does not exceed the
///   microbatch on the config's grid. The global batch and the order of samples do not change.
/// Deterministic. All functions here take a validated config. \throws UserError if no grid is found
RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory, Estimator& estimator);

/// How many grids to compile: of the best, then of those that need least memory.
struct GridEffort {
    int best = 12, smallest = 4;
};

/// Like choose_grid, but nullopt if no grid fits `memory`.
std::optional<RunConfig> grid_that_fits(const RunConfig& config, i64 ranks, Bytes memory,
                                        Estimator& estimator, const GridEffort& effort);

/// bytes_needed() of the largest stage on the grid of a candidate; without an order, its schedule is chosen.
/// nullopt if that is more than `most` (0: no limit), if the arena exceeds parallel.memory_limit, or if the
/// model does not fit the grid.
std::optional<Bytes> bytes_of_largest(const Candidate& candidate, Estimator& estimator, Bytes most);

/// A lower bound of the arena of each stage, without compiling: parameters, moments, and the activations of
/// the microbatches in flight.
std::vector<Bytes> least_bytes_of_stages(const RunConfig& config);

} // namespace trivium
