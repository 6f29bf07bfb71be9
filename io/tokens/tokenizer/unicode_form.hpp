#pragma once
// Unicode's normalization forms, and other changes of characters.
#include <string>
#include <string_view>

namespace trivium {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

/// \pre `text` is valid UTF-8
std::string to_form(UnicodeForm form, std::string_view text);

/// Each character in lower case, by Unicode's full mapping. \pre `text` is valid UTF-8
std::string to_lower(std::string_view text);

/// Without marks (the categories Mn, Mc and Me). \pre `text` is valid UTF-8
std::string without_marks(std::string_view text);

/// The normalizer Nmt of `tokenizers`: without control characters, and with a space for what is like one.
/// \pre `text` is valid UTF-8
std::string without_controls(std::string_view text);

} // namespace trivium
