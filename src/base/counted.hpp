#pragma once
// Counts with a noun, for messages: "1 rank", "8 ranks".
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <type_traits>

namespace trivium {

/// "rank" for one, "ranks" otherwise. `plural` is for nouns whose plural is not noun + s.
inline std::string noun_of(bool one, std::string_view noun, std::string_view plural = "")
{
    if (!one && !plural.empty())
        return std::string(plural);
    return std::string(noun).append(one ? "" : "s");
}

/// "1 rank", "8 ranks", "0 ranks"; counted(2, "match", "matches").
template <class Integer>
std::string counted(Integer count, std::string_view noun, std::string_view plural = "")
{
    static_assert(std::is_integral_v<Integer>);
    return std::to_string(count) + ' ' + noun_of(count == 1, noun, plural);
}

/// counted() with digits in groups of three: "1,234 documents".
inline std::string counted_in_groups(i64 count, std::string_view noun)
{
    return format_count(count) + ' ' + noun_of(count == 1, noun);
}

} // namespace trivium
