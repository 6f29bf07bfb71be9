#pragma once
// Clocks.
#include "base/units.hpp"

#include <chrono>

namespace trivium {

/// Monotonic time since an arbitrary moment.
inline Seconds now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// If a thread reads the clock more often than this, and finds a longer gap, its process was stopped (a
/// suspended job, a debugger).
constexpr Seconds suspension_gap = 3;

/// Seconds since 1970 (UTC), truncated to milliseconds.
inline double unix_now()
{
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) / 1000;
}

} // namespace trivium
