#pragma once
// Consecutive numbers, as of dimensions.
#include "base/units.hpp"

#include <numeric>
#include <vector>

namespace trivium {

/// first, first + 1, …
inline std::vector<i64> counting(std::size_t count, i64 first = 0)
{
    std::vector<i64> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

} // namespace trivium
