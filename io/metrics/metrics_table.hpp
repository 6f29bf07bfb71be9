#pragma once
// metrics.jsonl by columns, for up to millions of steps.
#include "base/units.hpp"

#include <limits>
#include <string>
#include <vector>

namespace trivium {

/// The values of one key, one per record.
struct MetricsColumn {
    std::string name;
    std::vector<double> values; ///< NaN if absent or not finite
    std::vector<bool> present;  ///< false if absent
};

/// The values of a key by record; NaN if no record has the key. Valid while the table exists unchanged.
struct MetricsValues {
    const MetricsColumn* column = nullptr;
    double operator[](std::size_t record) const
    {
        return column ? column->values[record] : std::numeric_limits<double>::quiet_NaN();
    }
};

struct MetricsTable {
    std::vector<i64> steps;             ///< by record, in file order
    std::vector<MetricsColumn> columns; ///< in order of the first occurrence of the keys

    std::size_t size() const { return steps.size(); }
    /// The column of the key; null if no record has the key.
    const MetricsColumn* find(const std::string& name) const;
    MetricsValues values(const std::string& name) const { return {find(name)}; }
};

/// Reads with visit_metrics; same errors.
MetricsTable read_metrics_table(const std::string& path);

} // namespace trivium
