#pragma once
// Units as types, and their text.
#include <cstdint>
#include <string>

namespace trivium {

using i32 = std::int32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;

/// A number of bytes.
using Bytes = std::int64_t;
/// Floating-point operations (a multiply-add counts as two).
using Flops = double;
/// Wall-clock seconds.
using Seconds = double;

/// `value` with `digits` decimals.
std::string fixed(double value, int digits = 1);
/// "1.50 GiB", exact below 1 KiB ("512 B").
std::string format_bytes(Bytes bytes);
/// "12345678" as "12,345,678".
std::string format_count(i64 count);
/// A count with a decimal suffix: "124.4 M".
std::string format_si(double value);
/// "1:02:03", "4:05" or "0.123 s".
std::string format_seconds(Seconds seconds);

/// Smallest multiple of `unit` that is at least `value`. \pre value >= 0, unit > 0
constexpr i64 round_up(i64 value, i64 unit) { return (value + unit - 1) / unit * unit; }
/// value / unit, rounded up. \pre value >= 0, unit > 0
constexpr i64 ceil_div(i64 value, i64 unit) { return (value + unit - 1) / unit; }

} // namespace trivium
