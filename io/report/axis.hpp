#pragma once
// Axes of charts: where ticks stand and what they say.
#include <string>

namespace trivium {

struct Axis {
    double low = 0, high = 1, tick = 1;
};

/// From one tick to another, around [low, high], with at most `count` intervals of 1, 2 or 5 times a power of
/// ten; room around a single value.
Axis nice_axis(double low, double high, int count);

/// "2.5", "20k", "1.5M", "2e-05": as short as the tick allows.
std::string tick_label(double value, double tick);

} // namespace trivium
