#pragma once
// Unicode's normalization form C.
#include <string>
#include <string_view>

namespace trivium {

/// `text`, which is UTF-8, with characters composed as far as they can be (Unicode Standard Annex 15).
std::string to_nfc(std::string_view text);

} // namespace trivium
