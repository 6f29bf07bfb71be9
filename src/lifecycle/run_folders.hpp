#pragma once
// The folders that a run keeps for itself: checkpoint.dir and log.dir. A file `.run` in each says whose they
// are.
#include "lifecycle/folder_lock.hpp"

#include <optional>

namespace trivium {

/// The locks of both folders, while it lives.
class RunFolders {
public:
    /// Makes the folders, shows that they can be written to, and locks them. Errors as FolderLock; IoError.
    RunFolders(const std::string& checkpoints, const std::string& logs, const LockPatience& patience);

private:
    std::optional<FolderLock> checkpoints_, logs_;
};

/// Makes logs/metrics.jsonl that of the run whose checkpoints are in `checkpoints`, as far as it exists.
/// Lines of another run are kept as logs/metrics.run-ID.jsonl, with a warning, until that run resumes. A run
/// that began at `resumed`, a checkpoint of the other run, gets a copy of its lines up to `step`. Empty: it
/// began anew. IoError.
void claim_metrics(const std::string& checkpoints, const std::string& logs, const std::string& resumed,
                   i64 step);

} // namespace trivium
