#pragma once
// A grid for the ranks that there are, when a run comes back on more or fewer than its config was written for.
#include "config/run_config.hpp"

namespace trivium {

/// `config.parallel` with data, pipeline and tensor degrees for at most `ranks` ranks. The config's own where they make up
/// that number; else, of all grids that the model and the global batch admit, the one with the best estimate of
///   ranks x balance of the layers over the stages x share of the schedule that is no bubble,
/// less three tenths for each doubling or halving of the tensor degree, which is a multiple or a part of the config's. Grids that cut the model into fewer parts than the
/// config does may not fit the memory: they are taken only where there is no other. The global batch, and with it the
/// order of samples, stays. Deterministic. \pre validated
/// \throws UserError where no grid is found
ParallelConfig choose_grid(const RunConfig& config, i64 ranks);

} // namespace trivium
