#include "io/metrics/shown_samples.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/lines.hpp"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace trivium {

namespace {

constexpr const char* file_name = "metrics.samples.jsonl";
constexpr Bytes most_bytes = Bytes{256} << 20;
constexpr i64 most_extent = 1024;

std::string quoted(const std::string& text)
{
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Number>
std::string list_of(const std::vector<Number>& numbers)
{
    std::string text;
    char digits[32];
    for (const Number number : numbers) {
        text += text.empty() ? "" : ",";
        if (std::isfinite(static_cast<double>(number)))
            text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
        else
            text += "null";
    }
    return "[" + text + "]";
}

std::string line_of(const ShownSample& shown)
{
    return str("{\"name\":", quoted(shown.name), ",\"sample\":", shown.sample,
               shown.step < 0 ? "" : str(",\"step\":", shown.step),
               shown.scale.empty() ? "" : ",\"scale\":" + quoted(shown.scale),
               ",\"shape\":", list_of(shown.shape), ",\"values\":", list_of(shown.values), "}\n");
}

/// Whether the line is a record, which it then reads.
bool parse(const std::string& line, ShownSample& shown)
{
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object())
        return false;
    try {
        shown = {json.at("name").get<std::string>(),
                 json.at("sample").get<i64>(),
                 json.value("step", i64{-1}),
                 json.value("scale", std::string()),
                 json.at("shape").get<std::vector<i64>>(),
                 {}};
        i64 count = shown.shape.empty() || shown.shape.size() > 2 ? 0 : 1;
        for (const i64 extent : shown.shape)
            count *= extent > 0 && extent <= most_extent ? extent : 0;
        const nlohmann::json& values = json.at("values");
        if (count == 0 || !values.is_array() || values.size() != static_cast<std::size_t>(count))
            return false;
        for (const nlohmann::json& value : values)
            shown.values.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN()
                                                   : value.get<float>());
    } catch (const nlohmann::json::exception&) {
        return false;
    }
    return true;
}

} // namespace

std::vector<ShownSample> read_shown_samples(const std::string& path)
{
    const std::string file = std::filesystem::is_directory(path) ? str(path, "/", file_name) : path;
    std::vector<ShownSample> all;
    if (!std::filesystem::exists(file))
        return all;
    for_each_line(read_file(file, "file of samples", most_bytes), [&](const std::string& line, bool) {
        all.emplace_back();
        if (!parse(line, all.back()))
            throw UserError({str(file, ":", all.size()), "is not the record of a sample",
                             "a line is a JSON object with name, sample, shape and values",
                             "remove the file; a run writes it at its next evaluation"});
    });
    return all;
}

void write_shown_samples(const std::string& dir, const std::vector<ShownSample>& samples)
{
    std::string text;
    for (const ShownSample& shown : samples)
        text += line_of(shown);
    write_file(str(dir, "/", file_name), text);
}

void thin_steps(std::vector<ShownSample>& samples, std::size_t most)
{
    std::set<i64> all;
    for (const ShownSample& shown : samples)
        if (shown.step >= 0)
            all.insert(shown.step);
    std::vector<i64> steps(all.begin(), all.end());
    while (steps.size() > most) {
        const auto ratio = [&](std::size_t i) { // of its neighbours
            return static_cast<double>(steps[i + 1]) / static_cast<double>(std::max<i64>(1, steps[i - 1]));
        };
        std::size_t least = 1;
        for (std::size_t i = 2; i + 1 < steps.size(); ++i)
            if (ratio(i) < ratio(least))
                least = i;
        std::erase_if(samples, [&](const ShownSample& shown) { return shown.step == steps[least]; });
        steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(least));
    }
}

} // namespace trivium
