#include "io/metrics.hpp"

#include "base/check.hpp"
#include "io/files.hpp"

#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

/// What JSON has for it: whole numbers without a point, null where there is none.
Json json_of(double value)
{
    if (!std::isfinite(value))
        return nullptr;
    if (std::trunc(value) == value && std::abs(value) < 0x1p53)
        return static_cast<i64>(value);
    return value;
}

/// Calls line(text, begin, complete) for each line of `content`; the last may lack its newline.
template <class Visit>
void for_each_line(const std::string& content, Visit&& visit)
{
    for (std::size_t begin = 0; begin < content.size();) {
        const std::size_t end = content.find('\n', begin);
        const bool complete = end != std::string::npos;
        const std::size_t size = complete ? end - begin : std::string::npos;
        visit(content.substr(begin, size), complete);
        begin = complete ? end + 1 : content.size();
    }
}

void append(int descriptor, const std::string& path, const std::string& text)
{
    // One call, so that a kill leaves no torn line; the loop is for a disk that takes less than all.
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t put = ::write(descriptor, text.data() + done, text.size() - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            throw_errno(path, "write");
        done += static_cast<std::size_t>(put);
    }
}

int open_to_append(const std::string& path)
{
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0)
        throw_errno(path, "write");
    return descriptor;
}

/// The step of a whole line; none where it is no record.
bool step_of(const std::string& line, i64& step)
{
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer())
        return false;
    step = record["step"].get<i64>();
    return true;
}

/// Moves the lines past `resume_step` and what is no whole record to the side file.
void supersede(const std::string& path, const std::string& side_path, i64 resume_step)
{
    if (!std::filesystem::exists(path))
        return;
    std::string kept, superseded;
    for_each_line(read_file(path, "metrics file"), [&](const std::string& line, bool complete) {
        i64 step = 0;
        const bool keep = complete && step_of(line, step) && step <= resume_step;
        (keep ? kept : superseded) += line + "\n";
    });
    if (superseded.empty())
        return;
    // First the copy: a kill between the two leaves lines twice, in different files, rather than nowhere.
    const int side = open_to_append(side_path);
    try {
        append(side, side_path, superseded);
    } catch (...) {
        ::close(side);
        throw;
    }
    ::close(side);
    write_file(path, kept);
}

} // namespace

bool MetricsRecord::has(const std::string& name) const
{
    for (const auto& [key, number] : values)
        if (key == name)
            return true;
    return false;
}

double MetricsRecord::value(const std::string& name) const
{
    for (const auto& [key, number] : values)
        if (key == name)
            return number;
    return std::numeric_limits<double>::quiet_NaN();
}

void MetricsRecord::set(const std::string& name, double value)
{
    for (auto& [key, number] : values)
        if (key == name) {
            number = value;
            return;
        }
    values.emplace_back(name, value);
}

MetricsWriter::MetricsWriter(const std::string& dir, i64 resume_step)
    : path_(dir + "/metrics.jsonl"), restarted_at_(resume_step)
{
    make_folders(dir);
    supersede(path_, dir + "/metrics.superseded.jsonl", resume_step);
    descriptor_ = open_to_append(path_);
}

MetricsWriter::~MetricsWriter()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

void MetricsWriter::write(const MetricsRecord& record)
{
    Json line;
    line["step"] = record.step;
    for (const auto& [name, number] : record.values)
        line[name] = json_of(number);
    if (restarted_at_ > 0)
        line["restarted_at"] = restarted_at_;
    restarted_at_ = 0;
    append(descriptor_, path_, line.dump() + "\n");
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
    for_each_line(read_file(file, "metrics file"), [&](const std::string& line, bool complete) {
        ++number;
        const Json object = Json::parse(line, nullptr, false);
        if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
            if (!complete || superseded) // the run still writes it, or was killed doing so
                return;
            throw UserError({str(file, ":", number), "is no record of a step", "a line is a JSON object with a whole number \"step\"",
                             "remove the line, or give a metrics.jsonl that `trivium train` wrote"});
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
