#pragma once
// Export of metrics.jsonl as CSV and as TensorBoard event files.
#include "io/metrics/metrics_table.hpp"

#include <span>
#include <string>
#include <vector>

namespace trivium {

struct NamedMetrics {
    std::string name;
    MetricsTable metrics;
};

/// Short unique names of runs: the paths without the folders that all of them have in common, at the
/// beginning and at the end; for a single run, the path. UserError if two paths are the same file.
std::vector<std::string> run_names(std::span<const std::string> paths);

/// Writes a header and one line per record. Several runs follow one another, with a first column `run`. A
/// cell is empty if the record lacks the key, and `nan` if the value was not finite. IoError.
void write_csv(const std::string& path, std::span<const NamedMetrics> runs);

/// Writes `folder`/events.out.tfevents.trivium, or `folder`/NAME/… for several runs: a scalar (f32, as in
/// TensorBoard) per value. The wall time of a record is its `time`; without one, the previous wall time plus
/// the step time. IoError.
void write_event_files(const std::string& folder, std::span<const NamedMetrics> runs);

} // namespace trivium
