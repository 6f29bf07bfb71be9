#pragma once
// Internal: what a config says that its run does not do.
#include "config/run_config.hpp"

namespace trivium {

/// "key: problem; remedy", a line for each setting of a validated config that has no effect or another one
/// than it says.
std::vector<std::string> warnings_of(const RunConfig& config);

} // namespace trivium
