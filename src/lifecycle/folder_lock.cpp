#include "lifecycle/folder_lock.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace trivium {

FolderLock::FolderLock(const std::string& folder, const LockPatience& patience, const std::string& content)
    : descriptor_(open((folder + "/.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666))
{
    if (descriptor_ < 0)
        log_warning(str(folder, "/.lock cannot be opened (", std::strerror(errno),
                        "): a second run in this folder would not be noticed"));
    const auto is_held = [&] {
        return descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    };
    const Seconds begin = now();
    bool held = is_held();
    if (held && patience.limit > 0)
        log_info(str(folder, " is in use; waiting up to ", format_seconds(patience.limit),
                     " for the processes of the previous launch to end"));
    while (held && now() - begin < patience.limit && !(patience.stopped && patience.stopped())) {
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        Activity::of_process().advance(); // so that the watchdog does not end it
        held = is_held();
    }
    if (!held)
        return;
    close(descriptor_);
    const Diagnostic diagnostic{folder, "is in use by another run",
                                "two runs in one folder would mix their " + content,
                                "wait for it to end, or give this run its own checkpoint.dir and log.dir"};
    if (patience.limit > 0)
        throw Error(format(diagnostic), 75);
    throw UserError(diagnostic);
}

FolderLock::~FolderLock()
{
    if (descriptor_ >= 0)
        close(descriptor_);
}

} // namespace trivium
