#include "base/host_memory.hpp"

#include "base/control_groups.hpp"

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
    const Bytes in_groups = ControlGroups{}.available_memory();
    return least < 0 || in_groups < 0 ? std::max(least, in_groups) : std::min(least, in_groups);
}

} // namespace trivium
