#pragma once
// The samples of a run's validation data in its report.
#include "io/report/run_summary.hpp"

#include <string>

namespace trivium {

/// A row per sample: its inputs, then its outputs by step, each as a picture or a curve with its range of
/// values. Markup; empty if the run shows no samples.
std::string sample_pictures(const RunFiles& run);

} // namespace trivium
