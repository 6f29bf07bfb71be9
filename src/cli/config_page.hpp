#pragma once
// The reference page of config keys, docs/config.md.
#include <string>

namespace trivium {

/// All keys with their types, defaults and meanings, and the presets.
std::string config_page();

} // namespace trivium
