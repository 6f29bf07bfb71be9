#pragma once
#include "base/check.hpp"

#include <algorithm>
#include <vector>

namespace trivium {

/// The median; for an even count, the higher one of the middle two: with two ranks, a slow one is compared
/// with the other. \pre values is not empty
inline double median(std::vector<double> values)
{
    TRV_CHECK(!values.empty(), "a median of nothing");
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace trivium
