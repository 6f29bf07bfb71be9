#pragma once
// Maps of the norms of layers: a row per part, a column per step.
#include "io/report/run_summary.hpp"

namespace trivium {

/// HTML; empty without norms.
std::string layer_map(const RunFiles& run);

} // namespace trivium
