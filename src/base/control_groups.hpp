#pragma once
// The limits of this process's control groups, and of those that contain them: cgroups v2, v1, or both at
// once, as Slurm and container runtimes make them. See cgroups(7) and the kernel's cgroup-v1/memory.rst.
#include "base/units.hpp"

#include <string>

namespace trivium {

/// `process`: the folder of the process in /proc; another one is for tests.
struct ControlGroups {
    std::string process = "/proc/self";

    /// Bytes that may still be allocated within every memory limit, file caches counted as free; -1: no
    /// limit.
    Bytes available_memory() const;
    /// CPU time per second of the smallest quota; 0: no quota.
    double cpu_quota() const;
};

} // namespace trivium
