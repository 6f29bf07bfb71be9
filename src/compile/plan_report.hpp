#pragma once
// Internal: what `trivium plan` finds out.
#include "compile/compile.hpp"

#include <string>
#include <vector>

namespace trivium {

/// One rank's part of the plan.
struct RankPlan {
    i64 rank = 0;
    Coordinates at;
    i64 parameters = 0;
    MemoryPlan memory;
};

/// Whether the ranks have the memory that their plans want.
struct MemoryVerdict {
    bool known = false; ///< what they have
    bool fits = false;
    i64 sharers = 1; ///< ranks that share `available`: 1 on devices, those of the fullest node on CPUs
    Bytes available = 0, needed = 0;
    std::string remedy; ///< where it does not fit: settings that were tried and do
};

struct PlanReport {
    RunConfig config;
    Machine machine;
    std::vector<RankPlan> ranks;     ///< all, or of a large grid the first of each stage
    std::vector<std::string> stages; ///< the blocks of each
    Flops flops = 0;
    Seconds step = 0, stage_busy = 0; ///< of a step, and what the busiest stage computes in it
    int threads = 1;
    i64 asked = 0; ///< ranks that a grid was chosen for; 0: none was
    MemoryVerdict memory;

    /// \pre there is one
    const RankPlan& largest() const;
    i64 rank_total() const { return rank_count(config.parallel); }
    /// Of the whole run.
    Seconds duration() const { return step * static_cast<double>(config.train.steps); }
    double device_hours() const { return duration() * static_cast<double>(rank_total()) / 3600; }
    /// Share of the machine's peak that the model's flops are.
    double mfu() const;
    /// Parameters and moments, without headers.
    Bytes checkpoint() const;
};

/// Plans `config` on `machine`; with `ranks` above zero, on the grid that choose_grid takes for so many ranks
/// with the machine's memory. `thread_limit`: as thread_count() takes it. Throws UserError.
PlanReport make_plan(const RunConfig& config, const Machine& machine, i64 ranks, int thread_limit);

} // namespace trivium
