#include "io/report/axis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace trivium {

namespace {

double nice_tick(double span, int count)
{
    const double rough = span / count, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= rough * 0.999)
            return factor * power;
    return 10 * power;
}

} // namespace

Axis nice_axis(double low, double high, int count)
{
    if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {
        const double room = high == 0 ? 0.5 : std::abs(high) * 0.05;
        low -= room;
        high += room;
    }
    const double tick = nice_tick(high - low, count);
    return {std::floor(low / tick + 1e-9) * tick, std::ceil(high / tick - 1e-9) * tick, tick};
}

std::string tick_label(double value, double tick)
{
    char text[48];
    if (value == 0)
        return "0";
    if (tick < 1e-4 && std::abs(value) < 1e-2) {
        std::snprintf(text, sizeof text, "%.*e",
                      std::clamp(static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9) -
                                                  std::floor(std::log10(tick) + 1e-9)),
                                 0, 6),
                      value);
        return text;
    }
    double unit = 1;
    const char* suffix = "";
    const double size = std::max(std::abs(value), tick);
    if (size >= 1e9)
        unit = 1e9, suffix = "G";
    else if (size >= 1e6)
        unit = 1e6, suffix = "M";
    else if (size >= 1e4)
        unit = 1e3, suffix = "k";
    const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(tick / unit) - 1e-9)), 0, 6);
    std::snprintf(text, sizeof text, "%.*f%s", digits, value / unit, suffix);
    return text;
}

} // namespace trivium
