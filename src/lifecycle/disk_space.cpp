#include "lifecycle/disk_space.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <sys/statvfs.h>

namespace trivium {

Bytes free_space(const std::string& dir)
{
    struct statvfs system = {};
    if (statvfs(dir.c_str(), &system) != 0 || system.f_blocks == 0) // some file systems do not report it
        return -1;
    return static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
}

std::string judge_space(const std::string& dir, Bytes free, const SavesToCome& saves)
{
    if (free < 0 || saves.count == 0)
        return "";
    const std::string has = str("the file system of ", dir, " has ", format_bytes(free), " free");
    if (free < saves.bytes)
        throw IoError({"checkpoint.dir", str("a save takes ", format_bytes(saves.bytes), ", ", has),
                       "the run could not save",
                       "free some space, or set checkpoint.dir to a folder of a larger file system"});
    // One more than `keep`: the oldest is removed only after the new one is complete.
    const i64 more = saves.keep == 0 ? saves.count
                                     : std::clamp<i64>(saves.keep + 1 - saves.kept_before, 1,
                                                       std::max<i64>(1, saves.count));
    if (free / more >= saves.bytes)
        return "";
    return str("the next ", more == 1 ? "checkpoint needs " : str(more, " checkpoints need "),
               format_bytes(more * saves.bytes), ", ", has, ": saving will fail after ", free / saves.bytes,
               " of them; free some space, or lower checkpoint.keep (", saves.keep,
               saves.keep == 0 ? ": all are kept" : "", ")");
}

} // namespace trivium
