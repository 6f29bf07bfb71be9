#pragma once
// A grid for the ranks that there are, when a run comes back on more or fewer than its config was written for.
#include "config/run_config.hpp"

namespace trivium {

/// `config` with data, pipeline and tensor degrees for at most `ranks` ranks. Its own where they make up that number; else, of
/// all grids that the model and the global batch admit, the one with the best estimate of
///   ranks x balance of the layers over the stages x share of the schedule that is no bubble,
/// less three tenths for each doubling or halving of the tensor degree, which is a multiple or a part of the config's.
/// Grids that cut the model into fewer parts than the config does are taken only where there is no other. A rank of each
/// stage keeps parallel.memory_limit, and where some grid does that too, `memory`: bytes that a rank has free for its arena and
/// snapshot (0: not known). A train.micro_batch of 0 becomes the largest part of a data rank's share that is no more than on
/// the config's grid. The global batch, and with it the order of samples, stays. Deterministic. \pre validated
/// \throws UserError where no grid is found
RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory = 0);

/// Bytes that an average rank's arena has at least: its parameters, their two moments, their gradients. Known without compiling.
double least_bytes(const RunConfig& config);

} // namespace trivium
