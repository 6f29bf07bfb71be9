#include "io/metrics/live/texts.hpp"

#include "base/check.hpp"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// A name of letters, digits and underscores.
std::string prometheus_name(const std::string& name)
{
    std::string clean = "trivium_";
    for (const char c : name)
        clean += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    return clean;
}

std::string label_text(const std::string& value)
{
    std::string text;
    for (const char c : value)
        text += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return text;
}

std::string prometheus_number(double value)
{
    return std::isnan(value)   ? "NaN"
           : std::isinf(value) ? value > 0 ? "+Inf" : "-Inf"
                               : fmt::format("{}", value);
}

} // namespace

std::string prometheus_text(const MetricsRecord& record, const std::string& log_dir)
{
    const std::string label = label_text(log_dir);
    std::string text;
    const auto add = [&](const std::string& name, double value) {
        const std::string full = prometheus_name(name);
        text += fmt::format("# TYPE {} gauge\n{}{{log_dir=\"{}\"}} {}\n", full, full, label,
                            prometheus_number(value));
    };
    add("step", static_cast<double>(record.step));
    for (const auto& [name, value] : record.values)
        add(name, value);
    return text;
}

std::string otlp_json(std::span<const MetricsRecord> records, const std::string& log_dir)
{
    using Json = nlohmann::ordered_json;
    std::vector<std::string> names;
    std::map<std::string, Json> points;
    for (const MetricsRecord& record : records) {
        const double time = record.value("time");
        const std::string nanoseconds = std::to_string(
            std::isfinite(time) && time > 0 && time < 9e9 ? static_cast<i64>(time * 1e6) * 1000 : 0);
        const auto add = [&](const std::string& name, const char* kind, const Json& value) {
            if (points.try_emplace(name, Json::array()).second)
                names.push_back(name);
            points[name].push_back({{"timeUnixNano", nanoseconds}, {kind, value}});
        };
        add("step", "asInt", std::to_string(record.step));
        for (const auto& [name, value] : record.values)
            if (std::isfinite(value) && name != "time")
                add(name, "asDouble", value);
    }
    Json metrics = Json::array();
    for (const std::string& name : names)
        metrics.push_back({{"name", "trivium." + name}, {"gauge", {{"dataPoints", points[name]}}}});
    const auto attribute = [](const char* key, const std::string& value) {
        return Json{{"key", key}, {"value", {{"stringValue", value}}}};
    };
    const Json resource{
        {"attributes", Json::array({attribute("service.name", "trivium"), attribute("log.dir", log_dir)})}};
    const Json scope{{"scope", {{"name", "trivium"}}}, {"metrics", metrics}};
    const Json all{
        {"resourceMetrics", Json::array({{{"resource", resource}, {"scopeMetrics", Json::array({scope})}}})}};
    return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace trivium
