#include "base/cores.hpp"

#include "base/check.hpp"
#include "base/control_groups.hpp"

#include <algorithm>
#include <sched.h>

namespace trivium {

int usable_core_count()
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 0;
    const double quota = ControlGroups{}.cpu_quota();
    return quota > 0 ? std::clamp(static_cast<int>(quota), 1, CPU_COUNT(&cores)) : CPU_COUNT(&cores);
}

std::string usable_cores()
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return "";
    std::string text;
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &cores))
            text += str(text.empty() ? "" : ",", core);
    return text;
}

} // namespace trivium
