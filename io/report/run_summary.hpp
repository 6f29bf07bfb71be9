#pragma once
// Summary of a run from the files of log.dir.
#include "io/metrics/launches.hpp"
#include "io/metrics/layer_norms.hpp"
#include "io/metrics/metrics_table.hpp"
#include "io/metrics/shown_samples.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The files of a run.
struct RunFiles {
    std::string metrics_path;
    MetricsTable metrics;         ///< metrics.jsonl
    MetricsTable superseded;      ///< metrics.superseded.jsonl: steps after the checkpoint from which a later
                                  ///< launch resumed
    std::vector<Launch> launches; ///< launches.jsonl; otherwise the restarts in the metrics
    bool launches_known = false;  ///< launches.jsonl has a launch
    std::vector<ShownSample> samples; ///< metrics.samples.jsonl
    std::vector<LayerNorms> layers;   ///< metrics.layers.jsonl
};

/// `path`: a folder, or the metrics.jsonl in it; the other files may be missing. Errors as in visit_metrics.
RunFiles read_run_files(const std::string& path);

/// Unknown numbers are NaN, unknown counts of steps -1. tokens, loss, valid_loss: the last recorded values.
struct RunSummary {
    i64 last_step = -1;
    double tokens, loss, recent_loss; ///< recent: mean of the last 100 steps
    double valid_loss, best_valid_loss;
    i64 best_valid_step = -1;
    double tokens_per_second, mfu; ///< mean over all steps, weighted by time
    Seconds predicted_step;        ///< the last one recorded
    Seconds median_step, training,
        elapsed;          ///< training: sum of the step times; elapsed: from the first launch to the last
                          ///< record or the end of the last launch
    double exposed_share; ///< exposed communication, as a fraction of the step time, where recorded
    double memory_used, memory_planned; ///< maximum over the steps, bytes of the rank that uses most
    i64 saves = 0;                ///< in metrics.jsonl, which does not record the save at the end of a launch
    Seconds median_save, stalled; ///< stalled: time for which training waited, over all saves
    i64 restarts = 0;
    i64 steps_lost = 0; ///< steps after the checkpoint from which a later launch resumed
    Seconds time_lost;
    std::vector<std::size_t> skipped;  ///< indices of the records of skipped steps
    std::vector<std::string> warnings; ///< sentences
};

RunSummary summarise(const RunFiles& run);

/// Seconds since 1970 of "2026-11-22T00:10:00Z"; NaN for other texts.
Seconds unix_time(const std::string& utc);
/// "2026-11-22 00:10" from "2026-11-22T00:10:00Z"; other texts unchanged.
std::string short_time(const std::string& utc);

} // namespace trivium
