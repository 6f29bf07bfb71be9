#pragma once
// HTML report about a run.
#include "io/report/run_summary.hpp"

#include <string>

namespace trivium {

/// A self-contained HTML page that is also well-formed XML: no scripts, no network, charts as SVG, for light
/// and dark screens and for paper. Numbers are in data elements whose `value` is not rounded.
std::string run_report_html(const RunFiles& run, const std::string& title);

} // namespace trivium
