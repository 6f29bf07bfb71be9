#pragma once
// The records of TensorBoard's event files.
#include "base/units.hpp"

#include <span>
#include <string>
#include <utility>

namespace trivium {

using NamedScalar = std::pair<std::string, double>;

/// The first record of a file. Times are Unix seconds.
std::string event_file_begin(Seconds time);
/// Lets a reader forget the steps from `step` on of earlier records and files of its folder.
std::string event_file_restart(Seconds time, i64 step);
/// The scalars of a step, as f32.
std::string event_file_scalars(Seconds time, i64 step, std::span<const NamedScalar> scalars);

} // namespace trivium
