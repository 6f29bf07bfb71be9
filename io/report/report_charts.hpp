#pragma once
// The charts of a run's report.
#include "io/report/chart.hpp"
#include "io/report/run_summary.hpp"

#include <vector>

namespace trivium {

/// Charts over all steps of the run, with marks at restarts and skipped steps; a chart without a value is
/// left out. The loss is first and wider than the others.
std::vector<Chart> report_charts(const RunFiles& run);

} // namespace trivium
