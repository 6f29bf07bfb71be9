#pragma once
// Text for terminals.
#include "io/files/utf8.hpp"

#include <string>
#include <string_view>

namespace trivium {

/// Without control characters, which would change the state of a terminal.
inline std::string printable(std::string_view text)
{
    std::string clean;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
            clean += replacement_character;
        else
            clean += c;
    }
    return clean;
}

} // namespace trivium
