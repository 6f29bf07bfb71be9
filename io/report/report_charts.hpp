#pragma once
// The charts of a run's report.
#include "io/report/chart.hpp"
#include "io/report/run_summary.hpp"

#include <vector>

namespace trivium {

/// All steps of the run, with restarts and skipped steps; without empty charts. The loss is first and wider
/// than the others.
std::vector<Chart> report_charts(const RunFiles& run);

} // namespace trivium
