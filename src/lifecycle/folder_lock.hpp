#pragma once
// One run a folder.
#include "base/units.hpp"

#include <functional>
#include <string>

namespace trivium {

/// How long to wait for another process to let go.
struct LockPatience {
    Seconds limit = 0;
    std::function<bool()> stopped{}; ///< ends the wait before
};

/// Holds the lock of a folder while it lives; the system frees it with the process, however that ends. File
/// systems that know no locks are let pass.
class FolderLock {
public:
    /// Where another process holds it, throws UserError, which names `content` as what two runs would mix;
    /// with patience, once that is over, an Error of exit status 75.
    explicit FolderLock(const std::string& folder, const LockPatience& patience = {},
                        const std::string& content = "checkpoints");
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();

private:
    int descriptor_ = -1;
};

} // namespace trivium
