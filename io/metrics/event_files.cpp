// Export to TensorBoard's event files.
#include "io/files/files.hpp"
#include "io/metrics/event_records.hpp"
#include "io/metrics/metrics_export.hpp"

#include <cmath>

namespace trivium {

namespace {

/// Time of each record, in Unix seconds.
std::vector<Seconds> wall_times(const MetricsTable& metrics)
{
    const MetricsValues time = metrics.values("time"), seconds = metrics.values("step_seconds");
    std::vector<Seconds> times;
    Seconds at = 0;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
        at += std::isfinite(seconds[i]) ? seconds[i] : 0;
        at = std::isfinite(time[i]) ? time[i] : at;
        times.push_back(at);
    }
    return times;
}

void write_event_file(const std::string& path, const MetricsTable& metrics)
{
    const std::vector<Seconds> times = wall_times(metrics);
    replace_file(path, [&](const std::string& temporary) {
        FileWriter file(temporary);
        file.write(event_file_begin(times.empty() ? 0 : times.front()));
        std::vector<NamedScalar> scalars;
        for (std::size_t i = 0; i < metrics.size(); ++i) {
            scalars.clear();
            for (const MetricsColumn& column : metrics.columns)
                if (column.present[i] && column.name != "time")
                    scalars.emplace_back(column.name, column.values[i]);
            file.write(event_file_scalars(times[i], metrics.steps[i], scalars));
        }
        file.close();
    });
}

} // namespace

void write_event_files(const std::string& folder, std::span<const NamedMetrics> runs)
{
    for (const NamedMetrics& run : runs)
        write_event_file(folder + (runs.size() > 1 ? "/" + run.name : "") + "/events.out.tfevents.trivium",
                         run.metrics);
}

} // namespace trivium
