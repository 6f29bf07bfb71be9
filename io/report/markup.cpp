#include "io/report/markup.hpp"

#include <cstdio>

#include "io/files/utf8.hpp"

#include <cstddef>

namespace trivium {

namespace {

/// Bytes of the first character of `text`; 0 if it is not valid UTF-8 or not allowed in XML 1.0.
std::size_t allowed_character(std::string_view text)
{
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = (first < ' ' && first != '\t' && first != '\n') || first == 0x7f ||
                         (first == 0xc2 && text.substr(1, 1) < "\xa0"); // U+0080 to U+009F
    const bool noncharacter = text.starts_with("\xef\xbf\xbe") || text.starts_with("\xef\xbf\xbf");
    return control || noncharacter ? 0 : first_character(text);
}

} // namespace

std::string markup_text(std::string_view text)
{
    constexpr std::string_view special = "<>&\"'";
    constexpr std::string_view escaped[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    std::string safe;
    while (!text.empty()) {
        const std::size_t length = allowed_character(text), place = special.find(text[0]);
        safe += length == 0              ? replacement_character
                : place < special.size() ? escaped[place]
                                         : text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return safe;
}

std::string short_number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

} // namespace trivium
