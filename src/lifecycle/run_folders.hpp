#pragma once
// The folders that one run at a time uses: checkpoint.dir and log.dir. A file `.run` in each identifies the
// run.
#include "lifecycle/folder_lock.hpp"

#include <optional>

namespace trivium {

/// Holds the locks of both folders while it exists.
class RunFolders {
public:
    /// Creates the folders, checks that they are writable, and locks them. Throws IoError, and as FolderLock.
    RunFolders(const std::string& checkpoints, const std::string& logs, const LockPatience& patience);

private:
    std::optional<FolderLock> checkpoints_, logs_;
};

/// Makes logs/metrics.jsonl the file of the run whose checkpoints are in `checkpoints`. The lines of another
/// run move to logs/metrics.run-ID.jsonl, with a warning, until that run resumes. If this run began from
/// `resumed` (empty: it did not), a checkpoint of that other run, it gets a copy of the other run's lines up
/// to `step`. Throws IoError.
void claim_metrics(const std::string& checkpoints, const std::string& logs, const std::string& resumed,
                   i64 step);

} // namespace trivium
