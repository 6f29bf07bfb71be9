#pragma once
// What the files of log.dir say of a run, as numbers.
#include "io/metrics/launches.hpp"
#include "io/metrics/metrics_table.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The files of a run.
struct RunFiles {
    std::string metrics_path;
    MetricsTable metrics; ///< metrics.jsonl
    MetricsTable
        superseded; ///< metrics.superseded.jsonl: steps past the checkpoint that a later launch went on from
    std::vector<Launch> launches; ///< launches.jsonl; without it, what the metrics tell of restarts
    bool launches_known = false;  ///< there is a launches.jsonl
};

/// `path`: a folder, or the metrics.jsonl in it; what lies beside it may be missing. Errors as visit_metrics.
RunFiles read_run_files(const std::string& path);

/// A number is NaN, and a count of steps -1, where nothing is known of it.
struct RunSummary {
    i64 last_step = -1;
    double tokens, loss, recent_loss; ///< recent: mean of the last 100 steps
    double valid_loss, best_valid_loss;
    i64 best_valid_step = -1;
    double tokens_per_second, mfu; ///< over all steps: each weighs by its time
    Seconds median_step, training,
        elapsed; ///< training: of all steps together; elapsed: from the first launch to the last sign of life
    double exposed_share;               ///< of the time of those steps that tell
    double memory_used, memory_planned; ///< the most of any step, bytes on the rank that has most
    i64 saves = 0;                      ///< that the steps tell of: not those that end a launch
    Seconds median_save, stalled;       ///< stalled: of all saves together
    i64 restarts = 0;
    i64 steps_lost = 0; ///< past the checkpoint that a later launch went on from
    Seconds time_lost;
    std::vector<std::size_t> skipped;  ///< records
    std::vector<std::string> warnings; ///< sentences
};

RunSummary summarise(const RunFiles& run);

/// Seconds since 1970 of "2026-11-22T00:10:00Z"; NaN for another text.
Seconds unix_time(const std::string& utc);
/// "2026-11-22 00:10" of either.
std::string short_time(const std::string& utc);

} // namespace trivium
