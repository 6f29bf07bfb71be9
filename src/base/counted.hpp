#pragma once
// Counts with their noun, for messages: "1 rank", "8 ranks".
#include <string>
#include <string_view>
#include <type_traits>

namespace trivium {

/// "1 rank", "8 ranks", "0 ranks". `plural` is for nouns that take more than an s: counted(2, "match", "matches").
template <class Integer>
std::string counted(Integer count, std::string_view noun, std::string_view plural = "")
{
    static_assert(std::is_integral_v<Integer>);
    std::string text = std::to_string(count) + ' ';
    if (count != 1 && !plural.empty())
        return text.append(plural);
    return text.append(noun).append(count == 1 ? "" : "s");
}

} // namespace trivium
