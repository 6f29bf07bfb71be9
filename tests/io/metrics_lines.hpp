#pragma once
// Makes a MetricsTable from the lines of a metrics.jsonl.
#include "io/metrics/metrics_table.hpp"
#include "io/temporary_folder.hpp"

namespace trivium {

inline MetricsTable table_of(const std::string& lines)
{
    const TemporaryFolder folder;
    put(folder / "metrics.jsonl", lines);
    return read_metrics_table(folder / "metrics.jsonl");
}

} // namespace trivium
