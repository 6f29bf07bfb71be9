#pragma once
// UTF-8, as Unicode defines it.
#include "base/units.hpp"

#include <string_view>

namespace trivium {

/// U+FFFD: replaces bytes that are not a character.
constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// Whether the byte is one of a character, but not its first.
constexpr bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// The first place from `at` on at which no character continues.
constexpr std::size_t character_begin(std::string_view text, std::size_t at)
{
    while (at < text.size() && continues_character(text[at]))
        ++at;
    return at;
}

/// Bytes of the first character of `text`; 0 if it is not valid UTF-8 (overlong forms and surrogates are
/// invalid). \pre not empty
std::size_t first_character(std::string_view text);

/// Offset of the first byte that is not valid UTF-8, or -1.
i64 first_invalid_utf8(std::string_view text);

} // namespace trivium
