#pragma once
// A lock that keeps a second run out of a folder.
#include "base/units.hpp"

#include <functional>
#include <string>

namespace trivium {

/// How long to wait for another process to release the lock.
struct LockPatience {
    Seconds limit = 0;
    std::function<bool()> stopped{}; ///< ends the wait early
};

/// Locks a folder while this object exists. The system releases the lock when the process ends, even if it is
/// killed. On file systems without locks, does nothing.
class FolderLock {
public:
    /// Throws UserError if another process holds the lock; `content` names what two runs would mix up. With
    /// patience.limit > 0, waits first, and then throws an Error with exit status 75 instead.
    explicit FolderLock(const std::string& folder, const LockPatience& patience = {},
                        const std::string& content = "checkpoints");
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();

private:
    int descriptor_ = -1;
};

} // namespace trivium
