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

/// Holds the lock of a folder while it exists; the system releases it when the process ends, however that
/// happens. File systems without locks are accepted.
class FolderLock {
public:
    /// Where another process holds it, throws UserError; `content` names what two runs would mix up. With
    /// patience, throws an Error of exit status 75 after the wait.
    explicit FolderLock(const std::string& folder, const LockPatience& patience = {},
                        const std::string& content = "checkpoints");
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();

private:
    int descriptor_ = -1;
};

} // namespace trivium
