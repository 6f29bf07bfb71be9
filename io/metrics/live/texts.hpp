#pragma once
// A step's metrics as texts for programs that watch a run.
#include "io/metrics/metrics.hpp"

#include <span>
#include <string>

namespace trivium {

/// The text format of Prometheus (version 0.0.4): a gauge trivium_NAME for each value, and trivium_step, each
/// with the label log_dir.
std::string prometheus_text(const MetricsRecord& record, const std::string& log_dir);

/// An ExportMetricsServiceRequest of OTLP, as JSON: a gauge trivium.NAME for each value, with a point for
/// each record that has it, at its `time`; the resource has the attributes service.name and log.dir. Values
/// that are not finite are left out.
std::string otlp_json(std::span<const MetricsRecord> records, const std::string& log_dir);

} // namespace trivium
