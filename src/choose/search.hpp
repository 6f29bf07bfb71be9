#pragma once
// The search over strategies: grids, ZeRO, schedules, microbatches and recomputation for a number of ranks.
#include "choose/quick_estimate.hpp"

namespace trivium {

/// Settings of [parallel] with their microbatch, simulated.
struct Strategy {
    RunConfig config; ///< without "auto", but parallel.bucket
    Score score;
    std::string rule;   ///< the practice that it follows: "data parallel", "FSDP", …; may be empty
    bool exact = false; ///< false: Estimator::rough_score()
};

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
};

struct SearchResult {
    std::vector<Strategy> strategies;  ///< that fit, by their simulated step
    std::size_t considered = 0;        ///< number of strategies, of slow ones only a bound of the step
    std::optional<RunConfig> smallest; ///< if none fitted by estimate: the one that needs least memory
};

/// Strategies for `ranks` ranks, or fewer where the model or the batch cannot use all of them.
/// 1. All legal strategies in closed form, with the least recomputation that fits, but those of which a lower
/// bound is far above the best; 2. the best of them with their schedules' orders; 3. the best of these
/// simulated, with at least one of each of the usual rules that fits (data parallel, FSDP, hybrid FSDP,
/// Megatron's); 4. changes of one setting, as long as the simulated step gets shorter; all again without
/// bounds, if what was left out may be better than what was found. Deterministic. \pre `config` is resolved,
/// apart from its grid
SearchResult search_strategies(const RunConfig& config, i64 ranks, const SearchConfig& search,
                               Estimator& estimator);

/// Searches by the time of `machine`, with the config's delays of links. On hosts, the ranks of a node share
/// its memory, or what is available here. `thread_limit` as in thread_count().
SearchConfig search_on(const Machine& machine, const ParallelConfig& links, int thread_limit);
/// Bytes that a rank may need on a grid of `ranks` ranks; 0: unknown.
Bytes memory_of_rank(const Machine& machine, i64 ranks);

/// The error for a model and a batch that allow no grid of `ranks` ranks.
[[noreturn]] void throw_no_grid(const RunConfig& config, i64 ranks);

/// The best strategy; if none fits the memory, the one that needs least. Degrees, microbatch and settings
/// stand in the config. \throws UserError if the model and the batch allow no grid
RunConfig choose_strategy(const RunConfig& config, i64 ranks, const SearchConfig& search,
                          Estimator& estimator);

} // namespace trivium
