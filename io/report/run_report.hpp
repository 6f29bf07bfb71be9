#pragma once
// One page about a run.
#include "io/report/run_summary.hpp"

#include <string>

namespace trivium {

/// A self-contained HTML page that is well-formed XML too: no scripts, no network, charts as SVG, for a light
/// or a dark ground and for paper. Numbers are in data elements whose `value` is the unrounded one.
std::string run_report_html(const RunFiles& run, const std::string& title);

} // namespace trivium
