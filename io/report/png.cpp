#include "io/report/png.hpp"

#include <algorithm>
#include <string_view>

namespace trivium {

namespace {

std::string big_endian(std::uint32_t number)
{
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes += static_cast<char>(number >> shift);
    return bytes;
}

/// CRC-32 of ISO 3309.
std::uint32_t crc(std::string_view bytes)
{
    std::uint32_t sum = ~0U;
    for (const char byte : bytes) {
        sum ^= static_cast<std::uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320U : 0);
    }
    return ~sum;
}

std::uint32_t adler(std::string_view bytes)
{
    std::uint32_t low = 1, high = 0;
    for (const char byte : bytes) {
        low = (low + static_cast<std::uint8_t>(byte)) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

std::string chunk(const std::string& type, const std::string& content)
{
    return big_endian(static_cast<std::uint32_t>(content.size())) + type + content +
           big_endian(crc(type + content));
}

/// A zlib stream of stored blocks.
std::string stored(std::string_view bytes)
{
    constexpr std::size_t most = 65535;
    std::string stream = "\x78\x01";
    for (std::size_t at = 0; at < bytes.size(); at += most) {
        const std::size_t count = std::min(most, bytes.size() - at);
        stream += static_cast<char>(at + count == bytes.size()); // the last one
        for (const std::size_t length : {count, ~count}) {
            stream += static_cast<char>(length);
            stream += static_cast<char>(length >> 8);
        }
        stream += bytes.substr(at, count);
    }
    return stream + big_endian(adler(bytes));
}

} // namespace

std::string png_of(int width, const std::vector<std::uint8_t>& pixels, const Palette& palette)
{
    const auto columns = static_cast<std::size_t>(width);
    std::string colours, rows;
    for (const auto& colour : palette)
        colours.append(colour.begin(), colour.end());
    for (std::size_t at = 0; at < pixels.size(); at += columns) {
        rows += '\0'; // no filter
        rows.append(pixels.begin() + static_cast<std::ptrdiff_t>(at),
                    pixels.begin() + static_cast<std::ptrdiff_t>(at + columns));
    }
    const std::string header = big_endian(static_cast<std::uint32_t>(width)) +
                               big_endian(static_cast<std::uint32_t>(pixels.size() / columns)) +
                               std::string("\x08\x03\0\0\0", 5); // 8 bits, of a palette
    return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("PLTE", colours) +
           chunk("IDAT", stored(rows)) + chunk("IEND", "");
}

std::string png_uri(const std::string& png)
{
    static constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string uri = "data:image/png;base64,";
    for (std::size_t at = 0; at < png.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(3, png.size() - at);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i)
            bits = bits << 8 | (i < count ? static_cast<std::uint8_t>(png[at + i]) : 0U);
        for (std::size_t i = 0; i < 4; ++i)
            uri += i <= count ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
    return uri;
}

} // namespace trivium
