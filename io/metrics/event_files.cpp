// TensorBoard event files: TFRecord frames (length, its checksum, data, its checksum) around four kinds of
// protobuf messages. Their fields, from tensorboard/compat/proto/{event,summary}.proto:
//   Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
//   Summary { repeated Value value = 1; }    Value { string tag = 1; float simple_value = 2; }
#include "io/files/files.hpp"
#include "io/metrics/crc32c.hpp"
#include "io/metrics/metrics_export.hpp"

#include <bit>
#include <cmath>

namespace trivium {

namespace {

template <class T>
void put_little_endian(std::string& to, T value)
{
    for (std::size_t i = 0; i < sizeof value; ++i)
        to += static_cast<char>((value >> (8 * i)) & 0xff);
}

void put_varint(std::string& to, u64 value)
{
    for (; value >= 0x80; value >>= 7)
        to += static_cast<char>((value & 0x7f) | 0x80);
    to += static_cast<char>(value);
}

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_key(std::string& to, int field, Wire wire)
{
    put_varint(to, static_cast<u64>(field << 3 | static_cast<int>(wire)));
}

void put_bytes(std::string& to, int field, const std::string& value)
{
    put_key(to, field, Wire::bytes);
    put_varint(to, value.size());
    to += value;
}

std::string event(Seconds wall_time)
{
    std::string message;
    put_key(message, 1, Wire::fixed64);
    put_little_endian(message, std::bit_cast<std::uint64_t>(wall_time));
    return message;
}

std::string scalar(const std::string& tag, double value)
{
    std::string message;
    put_bytes(message, 1, tag);
    put_key(message, 2, Wire::fixed32);
    put_little_endian(message, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    return message;
}

std::string framed(const std::string& data)
{
    const auto put_checksum = [](std::string& to, std::string_view bytes) {
        const std::uint32_t crc = crc32c(bytes);
        put_little_endian(to, std::rotr(crc, 15) + 0xa282ead8u); // "masked", as in TFRecord
    };
    std::string frame;
    put_little_endian(frame, static_cast<std::uint64_t>(data.size()));
    put_checksum(frame, frame);
    frame += data;
    put_checksum(frame, data);
    return frame;
}

/// Time of each record, in Unix seconds.
std::vector<Seconds> wall_times(const MetricsTable& metrics)
{
    const MetricsValues time = metrics.values("time"), seconds = metrics.values("step_seconds");
    std::vector<Seconds> times;
    Seconds at = 0;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
        at += std::isfinite(seconds[i]) ? seconds[i] : 0;
        at = std::isfinite(time[i]) ? time[i] : at;
        times.push_back(at);
    }
    return times;
}

void write_event_file(const std::string& path, const MetricsTable& metrics)
{
    const std::vector<Seconds> times = wall_times(metrics);
    replace_file(path, [&](const std::string& temporary) {
        FileWriter file(temporary);
        std::string first = event(times.empty() ? 0 : times.front());
        put_bytes(first, 3, "brain.Event:2");
        file.write(framed(first));
        for (std::size_t i = 0; i < metrics.size(); ++i) {
            std::string summary;
            for (const MetricsColumn& column : metrics.columns)
                if (column.present[i] && column.name != "time")
                    put_bytes(summary, 1, scalar(column.name, column.values[i]));
            std::string message = event(times[i]);
            put_key(message, 2, Wire::varint);
            put_varint(message, static_cast<u64>(metrics.steps[i]));
            put_bytes(message, 5, summary);
            file.write(framed(message));
        }
        file.close();
    });
}

} // namespace

void write_event_files(const std::string& folder, std::span<const NamedMetrics> runs)
{
    for (const NamedMetrics& run : runs)
        write_event_file(folder + (runs.size() > 1 ? "/" + run.name : "") + "/events.out.tfevents.trivium",
                         run.metrics);
}

} // namespace trivium
