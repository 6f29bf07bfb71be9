#include "io/metrics/crc32c.hpp"

#include <array>

namespace trivium {

namespace {

/// Update table, by byte, least significant bit first.
constexpr std::array<std::uint32_t, 256> make_table()
{
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t r = byte;
        for (int bit = 0; bit < 8; ++bit)
            r = (r >> 1) ^ ((r & 1) != 0 ? 0x82f63b78u : 0);
        table[byte] = r;
    }
    return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

} // namespace

std::uint32_t crc32c(std::string_view bytes)
{
    std::uint32_t r = ~std::uint32_t{0};
    for (const char c : bytes)
        r = (r >> 8) ^ table[(r ^ static_cast<unsigned char>(c)) & 0xff];
    return ~r;
}

} // namespace trivium
