#pragma once
// Unicode normalization form C.
#include <string>
#include <string_view>

namespace trivium {

/// `text` in form C (Unicode Standard Annex 15). \pre valid UTF-8
std::string to_nfc(std::string_view text);

} // namespace trivium
