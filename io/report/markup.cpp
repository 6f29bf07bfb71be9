#include "io/report/markup.hpp"

#include "io/files/utf8.hpp"

#include <cstddef>

namespace trivium {

namespace {

/// Length in bytes of the first character of `text`; 0 if it is not valid UTF-8 or not allowed in XML 1.0.
std::size_t character_length(std::string_view text)
{
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    };
    const unsigned first = byte(0);
    if (first < 0x80)
        return (first >= 0x20 && first != 0x7f) || first == '\t' || first == '\n' ? 1 : 0;
    const std::size_t length = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    unsigned code = first & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (byte(i) & 0x3f);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool forbidden =
        (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff || code > 0x10ffff;
    return first > 0xf4 || overlong || forbidden || code < 0xa0 ? 0 : length;
}

} // namespace

std::string markup_text(std::string_view text)
{
    std::string safe;
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        if (length == 0)
            safe += replacement_character;
        else if (text[0] == '<')
            safe += "&lt;";
        else if (text[0] == '>')
            safe += "&gt;";
        else if (text[0] == '&')
            safe += "&amp;";
        else if (text[0] == '"')
            safe += "&quot;";
        else if (text[0] == '\'')
            safe += "&#39;";
        else
            safe += text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return safe;
}

} // namespace trivium
