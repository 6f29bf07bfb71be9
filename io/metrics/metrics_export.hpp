#pragma once
// metrics.jsonl in the forms of other programs: CSV, and the event files that TensorBoard reads.
#include "io/metrics/metrics_table.hpp"

#include <span>
#include <string>
#include <vector>

namespace trivium {

struct NamedMetrics {
    std::string name;
    MetricsTable metrics;
};

/// Short names that tell runs apart: of several paths, what is neither their common beginning nor their
/// common end; of one, the path itself. UserError where two are the same file.
std::vector<std::string> run_names(std::span<const std::string> paths);

/// A header and a line for each record; of several runs, one below the other, with a first column `run`. A
/// cell is empty where the record lacks the key, and `nan` where the value was not finite. IoError.
void write_csv(const std::string& path, std::span<const NamedMetrics> runs);

/// `folder`/events.out.tfevents.trivium, or of several runs `folder`/NAME/…: a scalar (f32, as TensorBoard
/// keeps them) for each value, at the record's `time`, or where it has none, after the seconds of its steps.
/// IoError.
void write_event_files(const std::string& folder, std::span<const NamedMetrics> runs);

} // namespace trivium
