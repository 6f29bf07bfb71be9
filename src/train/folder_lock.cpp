#include "train/folder_lock.hpp"

#include "base/check.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace trivium {

FolderLock::FolderLock(const std::string& folder)
    : descriptor_(open((folder + "/.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666))
{
    if (descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(descriptor_);
        throw UserError({folder, "is in use by another run", "two runs in one folder would mix their checkpoints",
                         "wait for it to end, or give this run its own checkpoint.dir and log.dir"});
    }
}

FolderLock::~FolderLock()
{
    if (descriptor_ >= 0)
        close(descriptor_);
}

} // namespace trivium
