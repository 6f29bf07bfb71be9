#pragma once
// Rank 0's part in the start of a launch: the run's folders and its entry in launches.jsonl.
#include "config/run_config.hpp"
#include "io/metrics/launches.hpp"
#include "lifecycle/job.hpp"
#include "lifecycle/run_folders.hpp"
#include "lifecycle/signals.hpp"
#include "lifecycle/start_guard.hpp"
#include "mpi/grid.hpp"

#include <memory>
#include <optional>

namespace trivium {

/// What a Trainer shares with its caller; all of it outlives the Trainer.
struct RunLinks {
    std::optional<LaunchLog>&
        launches; ///< rank 0 begins it once the run's folders are its own; the caller ends it
    const RunSignals& signals;
    StartGuard* guard = nullptr; ///< released before anything is changed that a stop must not interrupt
};

/// Locks the run's folders and begins the entry. A restart waits for the locks up to two minutes, or until it
/// is asked to stop, and ends with an Error of status 75. A job that was requeued after it had saved resumes
/// from that save: `config.checkpoint.resume` becomes "auto". Throws Error where the folders are not usable
/// or the job makes no progress.
std::unique_ptr<RunFolders> begin_launch(RunConfig& config, const Job& job, const Grid& grid,
                                         const RunLinks& links);

/// Corrects the entry where the launch begins at another `step` than it was entered with: a damaged
/// checkpoint was passed over. Throws IoError where the job makes no progress.
void note_restored(LaunchLog& launch, const RunConfig& config, const Job& job, i64 step);

} // namespace trivium
