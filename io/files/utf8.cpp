#include "io/files/utf8.hpp"

namespace trivium {

namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

} // namespace

i64 first_invalid_utf8(std::string_view text)
{
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    const std::size_t size = text.size();
    for (std::size_t at = 0; at < size;) {
        const unsigned char lead = bytes[at];
        if (lead < 0x80) {
            ++at;
            continue;
        }
        const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                                   : lead >= 0xe0 && lead <= 0xef ? 3
                                   : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                                  : 0;
        if (length == 0 || at + length > size)
            return static_cast<i64>(at);
        // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
        const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (bytes[at + 1] < low || bytes[at + 1] > high)
            return static_cast<i64>(at);
        for (std::size_t i = 2; i < length; ++i)
            if (!is_continuation(bytes[at + i]))
                return static_cast<i64>(at);
        at += length;
    }
    return -1;
}

} // namespace trivium
