#include "io/metrics/metrics_table.hpp"

#include "io/metrics/metrics.hpp"

#include <algorithm>
#include <limits>

namespace trivium {

namespace {

constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// The column of this name; a new one is empty for the previous `records`.
MetricsColumn& column_of(MetricsTable& table, const std::string& name, std::size_t guess, std::size_t records)
{
    if (guess < table.columns.size() &&
        table.columns[guess].name == name) // the usual case: lines have the same keys
        return table.columns[guess];
    const auto found =
        std::ranges::find_if(table.columns, [&](const MetricsColumn& c) { return c.name == name; });
    if (found != table.columns.end())
        return *found;
    return table.columns.emplace_back(
        MetricsColumn{name, std::vector<double>(records, absent), std::vector<bool>(records, false)});
}

} // namespace

const MetricsColumn* MetricsTable::find(const std::string& name) const
{
    const auto found = std::ranges::find_if(columns, [&](const MetricsColumn& c) { return c.name == name; });
    return found == columns.end() ? nullptr : &*found;
}

MetricsTable read_metrics_table(const std::string& path)
{
    MetricsTable table;
    visit_metrics(path, [&](const MetricsRecord& record) {
        const std::size_t before = table.size();
        for (std::size_t i = 0; i < record.values.size(); ++i) {
            MetricsColumn& column = column_of(table, record.values[i].first, i, before);
            column.values.push_back(record.values[i].second);
            column.present.push_back(true);
        }
        table.steps.push_back(record.step);
        for (MetricsColumn& column : table.columns) {
            column.values.resize(table.size(), absent);
            column.present.resize(table.size(), false);
        }
    });
    return table;
}

} // namespace trivium
