#pragma once
// Text of any origin as text of an XML or HTML document.
#include <string>
#include <string_view>

namespace trivium {

/// Escaped for content and for quoted attributes. What no XML document may hold (bytes that are not UTF-8,
/// control characters) becomes U+FFFD.
std::string markup_text(std::string_view text);

} // namespace trivium
