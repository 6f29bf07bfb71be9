#pragma once
// metrics.jsonl: one JSON object a step, in the order of steps, each step once.
#include "base/units.hpp"
#include "io/files/lines.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// Numbers of one step by name, in the order in which they are written.
struct MetricsRecord {
    i64 step = 0;
    std::vector<std::pair<std::string, double>> values;

    bool has(const std::string& name) const;
    /// NaN where it is absent, or was not finite.
    double value(const std::string& name) const;
    void set(const std::string& name, double value);
};

/// Appends to dir/metrics.jsonl, one write() a line, so that lines of a killed run are whole.
class MetricsWriter {
public:
    /// Makes `dir`. Lines past `resume_step`, and a torn last one, move to dir/metrics.superseded.jsonl. The
    /// first record after a resume (resume_step > 0) gets "restarted_at": resume_step. IoError.
    MetricsWriter(const std::string& dir, i64 resume_step);

    /// Whole numbers are written as such; what is not finite as null. IoError.
    void write(const MetricsRecord& record);
    /// Returns once all records are on the disk. Another thread may write meanwhile. IoError.
    void sync() const { lines_->sync(); }

    /// The last line; none where there is none.
    std::optional<MetricsRecord> last() const;
    /// Puts `record` in place of the last line. IoError.
    void replace_last(const MetricsRecord& record);

    const std::string& path() const { return lines_->path(); }

private:
    std::optional<LineWriter> lines_;
    i64 restarted_at_ = 0; ///< 0: said already, or no restart
};

/// Writes the lines of the metrics file `from` up to step `last` as the file `to`. IoError.
void copy_metrics(const std::string& from, const std::string& to, i64 last);

/// The metrics.jsonl itself, given the folder that has it.
std::string metrics_file(const std::string& path);

/// Calls visit for each record of a metrics.jsonl (or of dir/metrics.jsonl, given the folder). A torn last
/// line is left out, in a metrics.superseded.jsonl any. Values other than numbers, booleans and null are left
/// out; null is NaN. UserError: missing file, bad line (file:line).
void visit_metrics(const std::string& path, const std::function<void(const MetricsRecord&)>& visit);

/// All of them at once. Errors as visit_metrics.
std::vector<MetricsRecord> read_metrics(const std::string& path);

} // namespace trivium
