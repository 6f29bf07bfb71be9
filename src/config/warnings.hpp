#pragma once
// Internal: settings of a config that have no effect.
#include "config/run_config.hpp"

namespace trivium {

/// One line "key: problem; remedy" for each setting that has no effect, or an unexpected one.
/// \pre validated
std::vector<std::string> warnings_of(const RunConfig& config);

} // namespace trivium
