#pragma once
// Pictures as PNG, uncompressed (RFC 2083, with stored blocks of RFC 1951).
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

using Palette = std::array<std::array<std::uint8_t, 3>, 256>; ///< red, green, blue

/// A file with one colour of the palette per pixel, row-major. \pre pixels.size() is a multiple of `width` >
/// 0
std::string png_of(int width, const std::vector<std::uint8_t>& pixels, const Palette& palette);

/// "data:image/png;base64,…", the URI of a picture within a page.
std::string png_uri(const std::string& png);

} // namespace trivium
