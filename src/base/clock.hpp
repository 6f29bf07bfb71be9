#pragma once
// How long things take.
#include "base/units.hpp"

#include <chrono>

namespace trivium {

/// Since some moment in the past; it never goes back.
inline Seconds now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace trivium
