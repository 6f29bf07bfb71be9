#pragma once
// The limits of this process's control groups and of the groups that enclose them: cgroups v2, v1, or both at
// once, as Slurm and container runtimes make them. See cgroups(7) and the kernel's cgroup-v1/memory.rst.
#include "base/units.hpp"

#include <string>

namespace trivium {

struct ControlGroups {
    std::string process = "/proc/self"; ///< the process's folder in /proc; tests set another one

    /// Bytes that may still be allocated within every memory limit; the inactive file cache counts as free.
    /// -1: no limit.
    Bytes available_memory() const;
    /// The smallest CPU quota in cores (CPU seconds per second); 0: no quota.
    double cpu_quota() const;
};

} // namespace trivium
