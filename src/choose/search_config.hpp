#pragma once
// What a search over strategies assumes: the memory of ranks, the machine whose time counts, its effort.
#include "choose/estimator.hpp"

#include <functional>

namespace trivium {

/// The number of strategies of each kind of estimate. Of models with more than 40 blocks fewer are simulated,
/// because each takes longer.
struct SearchEffort {
    std::size_t played = 400;   ///< on the clock of play()
    std::size_t simulated = 22; ///< compiled and simulated, best first
    std::size_t moves = 16;     ///< simulated changes of one setting of the best
    /// Of the best, that are simulated with all microbatches and a planned arena; with moves, also the
    /// best of other grids, and without a pipeline of other groups and stages of ZeRO, if nearly as fast.
    std::size_t exact = 1;
};

struct SearchConfig {
    /// Bytes that a rank may need on a grid of a number of ranks (bytes_needed()); 0: unknown.
    std::function<Bytes(i64 ranks)> memory;
    Machine clock;                                     ///< whose time counts
    std::function<i64(const ParallelConfig&)> threads; ///< of a rank
    SearchEffort effort = {};

    /// What a rank may have with this grid and parallel.memory_limit.
    StageLimits limits(const RunConfig& config) const;
    /// Bytes that an arena may have; infinite: unknown.
    double room(const RunConfig& config) const;
};

/// Searches by the time of `machine`, with the config's delays of links. On hosts, the ranks of a node share
/// its memory, or what is available here. `thread_limit` as in thread_count().
SearchConfig search_on(const Machine& machine, const ParallelConfig& links, int thread_limit);
/// Bytes that a rank may need on a grid of `ranks` ranks; 0: unknown.
Bytes memory_of_rank(const Machine& machine, i64 ranks);

} // namespace trivium
