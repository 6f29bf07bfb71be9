#include "base/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace trivium {

Bytes available_host_memory()
{
    Bytes least = -1;
    std::ifstream meminfo("/proc/meminfo");
    for (std::string key, unit; meminfo >> key;) {
        Bytes kilobytes = 0;
        meminfo >> kilobytes;
        std::getline(meminfo, unit);
        if (key == "MemAvailable:")
            least = kilobytes * 1024;
    }
    Bytes limit = 0, used = 0;
    if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
        std::ifstream("/sys/fs/cgroup/memory.current") >> used)
        least = least < 0 ? limit - used : std::min(least, limit - used);
    return least;
}

} // namespace trivium
