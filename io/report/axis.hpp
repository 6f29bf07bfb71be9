#pragma once
// Axes of charts: positions and labels of ticks.
#include <string>

namespace trivium {

struct Axis {
    double low = 0, high = 1, tick = 1;
};

/// An axis around [low, high] that starts and ends at a tick, with about `count` intervals of 1, 2 or 5 times
/// a power of ten; adds room around a single value.
Axis nice_axis(double low, double high, int count);

/// Prints a value with the precision of the tick: "2.5", "20k", "1.5M", "2e-05".
std::string tick_label(double value, double tick);

} // namespace trivium
