#pragma once
#include "base/check.hpp"

#include <algorithm>
#include <vector>

namespace trivium {

/// Of an even number, the higher one of the middle two: of two ranks, the other one's rate is what a slow one
/// is held to. \pre there is one
inline double median(std::vector<double> values)
{
    TRV_CHECK(!values.empty(), "a median of nothing");
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace trivium
