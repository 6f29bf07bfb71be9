#pragma once
// metrics.jsonl by columns: for what goes through all steps of a run, a million of them too.
#include "base/units.hpp"

#include <limits>
#include <string>
#include <vector>

namespace trivium {

/// The values of one key, one for each record.
struct MetricsColumn {
    std::string name;
    std::vector<double> values; ///< NaN where it is absent, or was not finite
    std::vector<bool> given;    ///< false where it is absent
};

/// The values of a key that may stand in no record at all.
struct MetricsValues {
    const MetricsColumn* column = nullptr;
    double operator[](std::size_t record) const
    {
        return column ? column->values[record] : std::numeric_limits<double>::quiet_NaN();
    }
};

struct MetricsTable {
    std::vector<i64> steps;             ///< of each record, in the order of the file
    std::vector<MetricsColumn> columns; ///< in the order in which the keys first stand in the file

    std::size_t size() const { return steps.size(); }
    /// Null where no record has it.
    const MetricsColumn* find(const std::string& name) const;
    MetricsValues values(const std::string& name) const { return {find(name)}; }
};

/// What visit_metrics reads, with its errors.
MetricsTable read_metrics_table(const std::string& path);

} // namespace trivium
