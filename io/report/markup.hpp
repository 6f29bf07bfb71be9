#pragma once
// Escaping for XML and HTML.
#include <string>
#include <string_view>

namespace trivium {

/// `text`, escaped for element content and quoted attributes. Each byte that XML does not allow (invalid
/// UTF-8, control characters) becomes U+FFFD.
std::string markup_text(std::string_view text);

/// A number with three digits, "1.23e-05".
std::string short_number(double value);

} // namespace trivium
