#pragma once
// UTF-8, as Unicode defines it.
#include "base/units.hpp"

#include <string_view>

namespace trivium {

/// Offset of the first byte that is not UTF-8 (overlong forms and surrogates included), or -1.
i64 first_invalid_utf8(std::string_view text);

} // namespace trivium
