#pragma once
// Enums whose values have names, in files and in messages.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace trivium {

/// The names of an enum's values, in order. Specialise next to the enum:
/// `template <> inline constexpr std::array<std::string_view, 2> names_of_enum<Positions>{"rotary",
/// "learned"};`
template <class Enum>
inline constexpr int names_of_enum = 0;

template <class Enum>
constexpr std::string_view name_of(Enum value)
{
    return names_of_enum<Enum>[static_cast<std::size_t>(value)];
}

/// The value called `name`; nullopt if there is none.
template <class Enum>
constexpr std::optional<Enum> value_named(std::string_view name)
{
    for (std::size_t i = 0; i < names_of_enum<Enum>.size(); ++i)
        if (names_of_enum<Enum>[i] == name)
            return static_cast<Enum>(i);
    return {};
}

} // namespace trivium
