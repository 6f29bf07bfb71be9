#include "io/files/utf8.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

std::size_t first_character(std::string_view text)
{
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead < 0x80                    ? 1
                               : lead >= 0xc2 && lead <= 0xdf ? 2
                               : lead >= 0xe0 && lead <= 0xef ? 3
                               : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                              : 0;
    if (length <= 1)
        return length;
    if (length > text.size() || !std::all_of(&text[1], &text[0] + length, continues_character))
        return 0;
    // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
    const unsigned char second = static_cast<unsigned char>(text[1]);
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return second < low || second > high ? 0 : length;
}

i64 first_invalid_utf8(std::string_view text)
{
    constexpr u64 high_bits = 0x8080808080808080u;
    for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
        u64 eight = high_bits;
        if (at + sizeof eight <= text.size())
            std::memcpy(&eight, &text[at], sizeof eight);
        if ((eight & high_bits) == 0) // ASCII
            length = sizeof eight;
        else if (length = first_character({&text[at], text.size() - at}); length == 0)
            return static_cast<i64>(at);
    }
    return -1;
}

} // namespace trivium
