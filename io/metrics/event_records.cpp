// TensorBoard event files: TFRecord frames (length, its checksum, data, its checksum) around protobuf
// messages. Their fields, from tensorboard/compat/proto/{event,summary}.proto:
//   Event      { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//                SessionLog session_log = 7; }
//   Summary    { repeated Value value = 1; }    Value { string tag = 1; float simple_value = 2; }
//   SessionLog { SessionStatus status = 1; }    START is 1
#include "io/metrics/event_records.hpp"

#include "io/metrics/crc32c.hpp"

#include <bit>

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

std::string event(Seconds wall_time, i64 step)
{
    std::string message = event(wall_time);
    put_key(message, 2, Wire::varint);
    put_varint(message, static_cast<u64>(step));
    return message;
}

} // namespace

std::string event_file_begin(Seconds time)
{
    std::string message = event(time);
    put_bytes(message, 3, "brain.Event:2");
    return framed(message);
}

std::string event_file_restart(Seconds time, i64 step)
{
    std::string start, message = event(time, step);
    put_key(start, 1, Wire::varint);
    put_varint(start, 1);
    put_bytes(message, 7, start);
    return framed(message);
}

std::string event_file_scalars(Seconds time, i64 step, std::span<const NamedScalar> scalars)
{
    std::string summary, message = event(time, step);
    for (const auto& [tag, value] : scalars)
        put_bytes(summary, 1, scalar(tag, value));
    put_bytes(message, 5, summary);
    return framed(message);
}

} // namespace trivium
