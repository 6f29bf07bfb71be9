#pragma once
// Escaping for XML and HTML.
#include <string>
#include <string_view>

namespace trivium {

/// Escaped for content and for quoted attributes. What XML does not allow (invalid UTF-8, control characters)
/// becomes U+FFFD.
std::string markup_text(std::string_view text);

} // namespace trivium
