#pragma once
// The folders that a run has for itself: checkpoint.dir and log.dir. A file `.run` in each names the run.
#include "lifecycle/folder_lock.hpp"

#include <optional>

namespace trivium {

/// Holds the locks of both folders while it exists.
class RunFolders {
public:
    /// Creates the folders, checks that they are writable, and locks them. Errors as FolderLock; IoError.
    RunFolders(const std::string& checkpoints, const std::string& logs, const LockPatience& patience);

private:
    std::optional<FolderLock> checkpoints_, logs_;
};

/// Makes logs/metrics.jsonl the file of the run whose checkpoints are in `checkpoints`. Lines of another run
/// move to logs/metrics.run-ID.jsonl, with a warning, until that run resumes. A run that began at `resumed`,
/// a checkpoint of the other run, gets a copy of its lines up to `step`; empty: the run began without one.
/// IoError.
void claim_metrics(const std::string& checkpoints, const std::string& logs, const std::string& resumed,
                   i64 step);

} // namespace trivium
