#pragma once
// Detects loss spikes: an update from a bad batch can cost more than skipping it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace trivium {

inline constexpr std::size_t least_losses = 8; ///< with fewer recent losses there is no spike
inline constexpr int most_spikes = 8;          ///< spikes in a row; after these, their loss is the new level

/// Whether `loss` is more than `z` standard deviations above the mean of the `recent` losses.
inline bool is_spike(const std::vector<double>& recent, double loss, double z)
{
    if (recent.size() < least_losses)
        return false;
    const auto count = static_cast<double>(recent.size());
    const double mean = std::accumulate(recent.begin(), recent.end(), 0.0) / count;
    double squares = 0;
    for (const double each : recent)
        squares += (each - mean) * (each - mean);
    const double rounding = 1e-6 * std::abs(mean); // if all losses are equal
    return loss - mean > z * std::max(std::sqrt(squares / count), rounding);
}

} // namespace trivium
