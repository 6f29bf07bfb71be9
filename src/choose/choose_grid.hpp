#pragma once
// Chooses a grid for a number of ranks: for `plan --ranks`, and for a run that resumes on another number of
// ranks.
#include "choose/estimator.hpp"

#include <optional>
#include <vector>

namespace trivium {

/// `config` with data, pipeline and tensor degrees for at most `ranks` ranks; the degrees of other axes stay.
/// The config's own degrees if their product is `ranks`. Otherwise, of all grids that the model and the
/// global batch allow, the one with the highest
///   ranks x balance of the layers over the stages x fraction of the schedule that is not bubble,
/// with these rules:
/// - The tensor degree is a multiple or a divisor of the config's. A change multiplies the score by 0.7 per
///   doubling or halving, by 0.1 if heads or feed-forward width do not divide evenly, by 0.1 if the degree
///   does not divide the ranks of a node, and by 0.8 if it is not a power of two.
/// - Grids with at least the config's pipeline x tensor ranks come first.
/// - The largest rank of each stage fits parallel.memory_limit and, if some grid does, `memory`: bytes
///   available to a rank for bytes_needed() (0: unknown).
/// - A train.micro_batch of 0 becomes the largest divisor of a data rank's share that does not exceed the
///   microbatch on the config's grid or, if nothing fits `memory` then, a half, a quarter, … of it. The
///   global batch and the order of samples do not change.
/// Deterministic. All functions here take a validated config. \throws UserError if no grid is found
RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory, Estimator& estimator);

/// The number of grids to compile: of those with the best score, then of those that need the least memory.
struct GridEffort {
    int best = 12, smallest = 4;
};

/// Like choose_grid(), also for as many ranks as the config has, but without smaller microbatches; nullopt if
/// `effort` finds no grid that fits `memory`.
std::optional<RunConfig> grid_that_fits(const RunConfig& config, i64 ranks, Bytes memory,
                                        Estimator& estimator, const GridEffort& effort);

/// bytes_needed() of the largest stage on the grid of a candidate; without an order, its schedule is chosen.
/// nullopt if that is more than `most` (0: no limit), if the arena exceeds parallel.memory_limit, or if the
/// model does not fit the grid.
std::optional<Bytes> bytes_of_largest(const Candidate& candidate, Estimator& estimator, Bytes most);

/// By stage: a lower bound of the arena, without compiling: parameters, optimizer states, gradients, and the
/// activations of the microbatches in flight.
std::vector<Bytes> least_bytes_of_stages(const RunConfig& config);

} // namespace trivium
