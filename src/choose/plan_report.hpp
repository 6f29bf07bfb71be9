#pragma once
// Internal: the report of `trivium plan`.
#include "choose/search.hpp"
#include "compile/simulated_step.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The plan of one rank.
struct RankPlan {
    i64 rank = 0, stage = 0;
    i64 parameters = 0; ///< elements in the rank's shards
    MemoryPlan memory;
};

/// Whether the ranks have the memory that their plans need.
struct MemoryVerdict {
    bool known = false; ///< the available memory is known
    bool fits = false;
    i64 sharers = 1; ///< ranks that share `available`: 1 on devices, those of the fullest node on CPUs
    Bytes available = 0, needed = 0; ///< of a device, or of the fullest node
    std::string remedy;              ///< if it does not fit: tested settings that do, if asked for
};

struct PlanReport {
    RunConfig config;
    ParallelConfig chosen; ///< of the config, without "auto" except `schedule`
    Machine machine;
    std::vector<RankPlan> ranks;     ///< all ranks; of a large grid, the first of each stage
    std::vector<std::string> stages; ///< by pipeline rank: its blocks
    std::optional<PlayedStep> step;  ///< an optimizer step of the first rank of each stage
    int threads = 1;
    i64 asked = 0; ///< number of ranks for which a grid was chosen; 0: the config's grid
    MemoryVerdict memory;
    /// By their simulated step: with `asked`, those that fit; without any, that of the report.
    std::vector<Strategy> strategies;
    std::size_t considered = 0; ///< SearchResult::considered
    std::size_t shown = 0;      ///< the number in `strategies` of the one that this report is about

    /// The strategy of this report; its score is exact.
    const Strategy& own() const { return strategies[shown]; }
    /// The plan with the largest arena. \pre ranks is not empty
    const RankPlan& largest() const;
    i64 rank_total() const { return rank_count(config.parallel); }
    /// Of one of `strategies`: duration of the whole run.
    Seconds duration(const Strategy& strategy) const
    {
        const TrainConfig& t = config.train;
        return strategy.score.step * static_cast<double>(samples_in(t, t.steps)) /
               static_cast<double>(t.global_batch);
    }
    double device_hours(const Strategy& strategy) const
    {
        return duration(strategy) * static_cast<double>(rank_count(strategy.config.parallel)) / 3600;
    }
    /// Model FLOPs utilisation.
    double mfu(const Strategy& strategy) const;
    /// The step of a strategy, shorter and longer by the largest error of the machine's calibration. \pre
    /// that is known
    std::pair<Seconds, Seconds> range(const Strategy& strategy) const
    {
        const Seconds step = strategy.score.step;
        return {step / (1 + machine.calibration_worst),
                step / (1 - std::min(0.9, machine.calibration_worst))};
    }
    Bytes checkpoint = 0; ///< bytes of a checkpoint: parameters and optimizer states, without headers
};

/// Plans `config` on `machine`; with ranks > 0, the best of search_strategies() for the machine's memory, or
/// the one with the number `which` of those found. `thread_limit` as in thread_count(). Throws UserError as
/// search_strategies() and decide(), but not if the machine has too little memory (MemoryVerdict).
/// `with_remedy`: then looks for settings that fit, which takes longer than the plan.
PlanReport make_plan(const RunConfig& config, const Machine& machine, i64 ranks, int thread_limit,
                     std::size_t which = 0, bool with_remedy = true);

} // namespace trivium
