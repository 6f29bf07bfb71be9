#pragma once
// metrics.jsonl: one JSON object per step, in order, each step once.
#include "base/units.hpp"
#include "io/files/lines.hpp"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// The numbers of one step by name, in file order.
struct MetricsRecord {
    i64 step = 0;
    using Number = std::pair<std::string, double>;
    std::vector<Number> values;

    bool has(const std::string& name) const;
    /// NaN if the name is absent, or if its value in the file is null.
    double value(const std::string& name) const;
    void set(const std::string& name, double value);
};

/// Appends to dir/metrics.jsonl with one write() per line, so that the lines of a killed run are complete.
class MetricsWriter {
public:
    /// Makes `dir`. Lines after `resume_step`, and an incomplete last line, move to
    /// dir/metrics.superseded.jsonl. The first record after a resume (resume_step > 0) gets "restarted_at":
    /// resume_step. IoError.
    MetricsWriter(const std::string& dir, i64 resume_step);

    /// Writes integers without a decimal point, and values that are not finite as null. If the disk fails (it
    /// is full, for example), warns and keeps the line for the next call: a run does not end for that.
    void write(const MetricsRecord& record);
    /// Waits until all written records are durable; warns on failure. Another thread may write concurrently.
    void sync() const;
    /// Writes the lines that write() kept. IoError.
    void finish();

    /// The last record of the file; nullopt if the file has none. Errors as visit_metrics.
    std::optional<MetricsRecord> last() const;
    /// Replaces the last line by `record`. IoError. \pre the file has a line
    void replace_last(const MetricsRecord& record);

    const std::string& path() const { return lines_->path(); }

private:
    std::optional<LineWriter> lines_;
    std::string kept_;     ///< lines that could not be written; a newline follows each but the last
    i64 restarted_at_ = 0; ///< 0: already written, or no restart
};

/// Copies the lines of the metrics file `from` up to step `last` to the file `to`. IoError.
void copy_metrics(const std::string& from, const std::string& to, i64 last);

/// The path of metrics.jsonl: `path`, or `path`/metrics.jsonl if `path` is a folder.
std::string metrics_file(const std::string& path);

/// Calls visit for each record of the file, in file order; `path` as in metrics_file. Skips an incomplete
/// last line, and any invalid line of a metrics.superseded.jsonl. Skips values other than numbers, booleans
/// (0 or 1) and null (NaN). UserError: missing file, invalid line (file:line).
void visit_metrics(const std::string& path, const std::function<void(const MetricsRecord&)>& visit);

/// All records at once. Errors as in visit_metrics.
std::vector<MetricsRecord> read_metrics(const std::string& path);

} // namespace trivium
