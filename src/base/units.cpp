#include "base/units.hpp"

#include <cmath>
#include <cstdio>

namespace trivium {

std::string fixed(double value, int digits)
{
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string format_bytes(Bytes bytes)
{
    static const char* const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes < 1024)
        return std::to_string(bytes) + " B";
    double value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 5; ++unit)
        value /= 1024;
    return fixed(value, 2) + " " + names[unit];
}

std::string format_count(i64 count)
{
    std::string digits = std::to_string(count < 0 ? -count : count);
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return count < 0 ? "-" + digits : digits;
}

std::string format_si(double value)
{
    static const char* const names[] = {"", " k", " M", " G", " T", " P", " E"};
    int unit = 0;
    for (; std::abs(value) >= 1000 && unit < 6; ++unit)
        value /= 1000;
    return fixed(value, unit == 0 ? 0 : 1) + names[unit];
}

std::string format_seconds(Seconds seconds)
{
    if (seconds < 60)
        return fixed(seconds, seconds < 10 ? 3 : 1) + " s";
    const auto whole = static_cast<long long>(std::llround(seconds));
    char text[64];
    if (whole < 3600)
        std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
    else
        std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    return text;
}

} // namespace trivium
