#include "io/files/files.hpp"
#include "io/metrics/metrics_export.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace trivium {

namespace {

/// RFC 4180.
std::string quoted_if_needed(const std::string& text)
{
    if (text.find_first_of(",\"\r\n") == std::string::npos)
        return text;
    std::string quoted = "\"";
    for (const char c : text)
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
}

/// The shortest text that reads back as the same number.
std::string shortest(double value)
{
    if (std::isnan(value))
        return "nan";
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

} // namespace

void write_csv(const std::string& path, std::span<const NamedMetrics> runs)
{
    std::vector<std::string> names; // of all runs' columns
    for (const NamedMetrics& run : runs)
        for (const MetricsColumn& column : run.metrics.columns)
            if (std::find(names.begin(), names.end(), column.name) == names.end())
                names.push_back(column.name);
    replace_file(path, [&](const std::string& temporary) {
        FileWriter file(temporary);
        std::string header = runs.size() > 1 ? "run,step" : "step";
        for (const std::string& name : names)
            header += "," + quoted_if_needed(name);
        file.write(header + "\n");
        for (const NamedMetrics& run : runs) {
            std::vector<const MetricsColumn*> columns;
            for (const std::string& name : names)
                columns.push_back(run.metrics.find(name));
            const std::string begin = runs.size() > 1 ? quoted_if_needed(run.name) + "," : "";
            for (std::size_t i = 0; i < run.metrics.size(); ++i) {
                std::string line = begin + std::to_string(run.metrics.steps[i]);
                for (const MetricsColumn* column : columns)
                    line += column && column->present[i] ? "," + shortest(column->values[i]) : ",";
                file.write(line + "\n");
            }
        }
        file.close();
    });
}

} // namespace trivium
