#pragma once
// Internal to plan: how long a run takes with failures and checkpoints.
#include "choose/plan_report.hpp"
#include "plan/long_run.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace trivium {

struct LongRunOptions {
    double tokens = 0;              ///< 0: those of train.steps
    double node_failure_hours = -1; ///< -1: 6,300 on devices, none on hosts
    Seconds restart_seconds = 600;
    double write_bytes_per_second = 0; ///< 0: 1 GB/s per node
};

struct LongRunPlan {
    double tokens = 0;
    i64 nodes = 1;
    double node_hours = 0; ///< between failures of a node
    Failures failures;
    LongRun run;
    Seconds work = 0;        ///< of all steps, without failures
    double slower_files = 0; ///< by how much longer the run takes if checkpoints are written at half the rate

    Seconds wall() const { return work / run.goodput; }
};

/// nullopt without failures. With checkpoint.async, a checkpoint stops the training while its snapshot is
/// copied, otherwise while it is written.
std::optional<LongRunPlan> long_run_of(const PlanReport& report, const LongRunOptions& options);

std::string to_text(const LongRunPlan& plan);
nlohmann::ordered_json to_json(const LongRunPlan& plan);

} // namespace trivium
