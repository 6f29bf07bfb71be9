#pragma once
// Unicode's normalization forms.
#include <string>
#include <string_view>

namespace trivium {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// \pre `text` is valid UTF-8
std::string to_form(UnicodeForm form, std::string_view text);

/// Each character in lower case, by Unicode's full mapping. \pre `text` is valid UTF-8
std::string to_lower(std::string_view text);

} // namespace trivium
