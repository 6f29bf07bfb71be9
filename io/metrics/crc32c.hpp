#pragma once
// CRC-32C (Castagnoli), RFC 3720, appendix B.4: the checksum of TFRecord files.
#include <cstdint>
#include <string_view>

namespace trivium {

std::uint32_t crc32c(std::string_view bytes);

} // namespace trivium
