#pragma once
// The charts of a run's report.
#include "io/report/chart.hpp"
#include "io/report/run_summary.hpp"

#include <vector>

namespace trivium {

/// Over all steps of the run, with its restarts and skipped steps; charts without a point are left out. The
/// loss is the first, and wider than the others.
std::vector<Chart> report_charts(const RunFiles& run);

} // namespace trivium
