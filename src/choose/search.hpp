#pragma once
// The search over strategies: grids, ZeRO, schedules, microbatches and recomputation for a number of ranks.
#include "choose/search_config.hpp"

namespace trivium {

/// Settings of [parallel] with their microbatch, simulated.
struct Strategy {
    RunConfig config; ///< without "auto", but parallel.bucket
    Score score;
    std::string rule;   ///< the practice that it follows: "data parallel", "FSDP", …; may be empty
    bool exact = false; ///< false: Estimator::rough_score()
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

/// The error for a model and a batch that allow no grid of `ranks` ranks.
[[noreturn]] void throw_no_grid(const RunConfig& config, i64 ranks);

/// The best strategy; if none fits the memory, the one that needs least. Degrees, microbatch and settings
/// stand in the config. \throws UserError if the model and the batch allow no grid
RunConfig choose_strategy(const RunConfig& config, i64 ranks, const SearchConfig& search,
                          Estimator& estimator);

} // namespace trivium
