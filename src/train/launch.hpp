#pragma once
// What rank 0 does at the start of a launch: the run's folders and the entry in launches.jsonl.
#include "config/run_config.hpp"
#include "io/metrics/launches.hpp"
#include "lifecycle/job.hpp"
#include "lifecycle/run_folders.hpp"
#include "lifecycle/signals.hpp"
#include "lifecycle/start_guard.hpp"
#include "mpi/grid.hpp"
#include "plan/machine.hpp"

#include <memory>
#include <optional>

namespace trivium {

/// Objects that a Trainer shares with its caller; all must outlive the Trainer.
struct RunLinks {
    std::optional<LaunchLog>&
        launches; ///< rank 0 begins the entry once it has locked the run's folders; the caller ends it
    const RunSignals& signals;
    StartGuard* guard = nullptr;    ///< released before changes that a stop must not interrupt
    const Machine* clock = nullptr; ///< on rank 0: on which the step is predicted; null: on GPUs the GPU
};

/// Rank 0 calls it: locks the run's folders and begins the entry. A requeued job waits for the locks for up
/// to two minutes, or until a stop is requested, then throws an Error with status 75. A job that was requeued
/// after it had saved resumes from that save: `config.checkpoint.resume` becomes "auto". Throws UserError or
/// IoError if the folders are not usable, and IoError if the job makes no progress. `machine`: its name.
std::unique_ptr<RunFolders> begin_launch(RunConfig& config, const Job& job, const Grid& grid,
                                         const std::string& machine, const RunLinks& links);

/// Rank 0 calls it: corrects the entry if the launch begins at another `step` than recorded, because a
/// damaged checkpoint was skipped. Throws IoError if the job makes no progress.
void note_restored(LaunchLog& launch, const RunConfig& config, const Job& job, i64 step);

} // namespace trivium
