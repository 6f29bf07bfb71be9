#pragma once
// Characters of text that is known to be valid UTF-8.
#include <cstddef>
#include <cstdint>

namespace trivium {

/// Bytes of the character with this first byte.
constexpr std::size_t character_length(char first)
{
    const auto lead = static_cast<unsigned char>(first);
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/// The code point of the character at `at`.
constexpr std::uint32_t code_point(const char* at)
{
    const auto byte = [&](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])); };
    switch (character_length(*at)) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
        return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
    }
}

} // namespace trivium
