#pragma once
// One run a folder.
#include <string>

namespace trivium {

/// Holds the lock of a folder while it lives; the system frees it with the process, however that ends.
/// Throws UserError where another process holds it. File systems that know no locks are let pass.
class FolderLock {
public:
    explicit FolderLock(const std::string& folder);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();

private:
    int descriptor_ = -1;
};

} // namespace trivium
