#pragma once
// How a config struct lists its keys: once, for reading, printing, overriding and documenting alike.
//
//   template <class Self, class Visit> static void keys(Self& self, Visit&& visit)
//   { visit("layers", self.layers, "number of transformer blocks"); … }
//
// A key's C++ type says what it accepts: i64, double, bool, std::string, an enum with `names_of`,
// or RopeScaling.
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// The words that an enum's values are written as, in the order of the values.
/// Specialise next to the enum: `inline constexpr std::array names_of_enum<Family>{"llama", "gpt2"};`
template <class Enum>
inline constexpr int names_of_enum = 0;

template <class Enum>
constexpr std::string_view name_of(Enum value)
{
    return names_of_enum<Enum>[static_cast<std::size_t>(value)];
}

/// Among `known`, the word nearest to `word` (edit distance), or "" where none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

/// "a, b or c".
std::string one_of(const std::vector<std::string>& words);

} // namespace trivium
