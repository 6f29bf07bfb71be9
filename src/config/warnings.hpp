#pragma once
// Internal: settings of a config that have no effect, or an unexpected one.
#include "config/run_config.hpp"

namespace trivium {

/// One line "key: problem; remedy" for each setting of a validated config that has no effect, or an
/// unexpected one.
std::vector<std::string> warnings_of(const RunConfig& config);

} // namespace trivium
