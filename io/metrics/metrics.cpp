#include "io/metrics/metrics.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/files/files.hpp"
#include "io/files/lines.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

/// As JSON: integers without a decimal point, null for values that are not finite.
Json json_of(double value)
{
    if (!std::isfinite(value))
        return nullptr;
    if (std::trunc(value) == value && std::abs(value) < 0x1p53)
        return static_cast<i64>(value);
    return value;
}

std::string line_of(const MetricsRecord& record)
{
    Json line;
    line["step"] = record.step;
    for (const auto& [name, number] : record.values)
        line[name] = json_of(number);
    return line.dump();
}

/// Discarded if it is not JSON, or longer than any line that runs write (each key is compared with the
/// previous ones).
Json parse_line(const std::string& line)
{
    constexpr std::size_t most = std::size_t{64} << 10;
    return line.size() > most ? Json(Json::value_t::discarded) : Json::parse(line, nullptr, false);
}

/// An object with a whole number "step".
bool is_record(const Json& line)
{
    return line.is_object() && line.contains("step") && line["step"].is_number_integer();
}

/// Splits a file into the lines of complete records up to step `last`, and the rest.
std::pair<std::string, std::string> divide(const std::string& path, i64 last)
{
    std::string kept, other;
    for_each_line(read_file(path, "metrics file", max_log_bytes),
                  [&](const std::string& line, bool complete) {
                      const Json record = parse_line(line);
                      const bool keep = complete && is_record(record) && record["step"].get<i64>() <= last;
                      (keep ? kept : other) += line + "\n";
                  });
    return {kept, other};
}

/// Moves the lines after `resume_step`, and incomplete records, to the side file.
void supersede(const std::string& path, const std::string& side_path, i64 resume_step)
{
    if (!std::filesystem::exists(path))
        return;
    auto [kept, superseded] = divide(path, resume_step);
    if (superseded.empty())
        return;
    // Copy first: after a kill between the two writes, lines exist in both files rather than in none. The
    // next launch detects that.
    if (!std::filesystem::exists(side_path) ||
        !read_file(side_path, "metrics file", max_log_bytes).ends_with(superseded)) {
        superseded.pop_back(); // the writer adds the newline
        LineWriter(side_path).write(superseded);
    }
    write_file(path, kept);
}

} // namespace

bool MetricsRecord::has(const std::string& name) const
{
    return std::ranges::find(values, name, &Number::first) != values.end();
}

double MetricsRecord::value(const std::string& name) const
{
    const auto found = std::ranges::find(values, name, &Number::first);
    return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

void MetricsRecord::set(const std::string& name, double value)
{
    if (const auto found = std::ranges::find(values, name, &Number::first); found != values.end())
        found->second = value;
    else
        values.emplace_back(name, value);
}

MetricsWriter::MetricsWriter(const std::string& dir, i64 resume_step) : restarted_at_(resume_step)
{
    make_folders(dir);
    const std::string path = dir + "/metrics.jsonl";
    supersede(path, dir + "/metrics.superseded.jsonl", resume_step);
    lines_.emplace(path);
    sync_path(dir); // makes the file's entry durable
}

void MetricsWriter::write(const MetricsRecord& record)
{
    if (restarted_at_ > 0) {
        MetricsRecord first = record;
        first.set("restarted_at", static_cast<double>(restarted_at_));
        restarted_at_ = 0;
        return write(first);
    }
    const bool failed = !kept_.empty();
    kept_ += (failed ? "\n" : "") + line_of(record);
    try {
        finish();
        if (failed)
            log_info(str(path(), ": the lines that were kept are written"));
    } catch (const Error& error) {
        if (!failed)
            log_warning(str(error.what(), "\n  lines are kept until they can be written"));
    }
}

void MetricsWriter::finish()
{
    if (!kept_.empty())
        lines_->write(kept_);
    kept_.clear();
}

void MetricsWriter::sync() const
{
    try {
        lines_->sync();
    } catch (const Error& error) {
        log_warning(str(error.what(), "\n  after a crash of this machine, lines may be missing"));
    }
}

std::optional<MetricsRecord> MetricsWriter::last() const
{
    const std::vector<MetricsRecord> all = read_metrics(path());
    return all.empty() ? std::nullopt : std::optional(all.back());
}

void MetricsWriter::replace_last(const MetricsRecord& record)
{
    const std::string file = path();
    std::string content = read_file(file, "metrics file", max_log_bytes);
    content.pop_back();
    content.resize(content.rfind('\n') + 1); // npos + 1: it was the only line
    lines_.reset();
    write_file(file, content + line_of(record) + "\n");
    lines_.emplace(file);
}

void copy_metrics(const std::string& from, const std::string& to, i64 last)
{
    write_file(to, divide(from, last).first);
}

std::string metrics_file(const std::string& path)
{
    return std::filesystem::is_directory(path) ? path + "/metrics.jsonl" : path;
}

void visit_metrics(const std::string& path, const std::function<void(const MetricsRecord&)>& visit)
{
    const std::string file = metrics_file(path);
    const bool superseded = std::filesystem::path(file).filename() == "metrics.superseded.jsonl";
    i64 number = 0;
    MetricsRecord record;
    for_each_line(
        read_file(file, "metrics file", max_log_bytes), [&](const std::string& line, bool complete) {
            ++number;
            const Json object = parse_line(line);
            if (!is_record(object)) {
                if (!complete || superseded) // the run is writing it, or was killed
                    return;
                throw UserError({str(file, ":", number), "is not the record of a step",
                                 "a line is a JSON object with a whole number \"step\"",
                                 "remove the line, or name a metrics.jsonl that `trivium train` wrote"});
            }
            record.step = object["step"].get<i64>();
            record.values.clear();
            for (const auto& [name, value] : object.items()) {
                if (name == "step")
                    continue;
                if (value.is_number())
                    record.set(name, value.get<double>());
                else if (value.is_boolean())
                    record.set(name, value.get<bool>() ? 1 : 0);
                else if (value.is_null())
                    record.set(name, std::numeric_limits<double>::quiet_NaN());
            }
            visit(record);
        });
}

std::vector<MetricsRecord> read_metrics(const std::string& path)
{
    std::vector<MetricsRecord> records;
    visit_metrics(path, [&](const MetricsRecord& record) { records.push_back(record); });
    return records;
}

} // namespace trivium
