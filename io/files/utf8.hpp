#pragma once
// UTF-8, as Unicode defines it.
#include "base/units.hpp"

#include <string_view>

namespace trivium {

/// U+FFFD: replaces bytes that are not a character.
constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are invalid), or -1.
i64 first_invalid_utf8(std::string_view text);

} // namespace trivium
