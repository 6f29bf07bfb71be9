#pragma once
// Ids of tokens in the integer types that files have.
#include "base/check.hpp"
#include "base/units.hpp"
#include "config/token_type.hpp"

#include <cstdint>

namespace trivium {

/// Calls `f` with a value of the C++ type: f(std::uint16_t{}). \pre type is not automatic
template <class F>
auto with_token_type(TokenType type, F&& f)
{
    TRV_CHECK(type != TokenType::automatic, "tokens of no type");
    switch (type) {
    case TokenType::uint8: return f(std::uint8_t{});
    case TokenType::uint16: return f(std::uint16_t{});
    case TokenType::uint32: return f(std::uint32_t{});
    case TokenType::uint64: return f(std::uint64_t{});
    case TokenType::int8: return f(std::int8_t{});
    case TokenType::int16: return f(std::int16_t{});
    case TokenType::int32: return f(std::int32_t{});
    default: return f(std::int64_t{});
    }
}

/// Bytes of an id. \pre type is not automatic
Bytes size_of(TokenType type);

/// Widens `count` ids, little-endian and unaligned at `from`, to `to`. Returns the index of the first one
/// outside [0, limit), or `count`. \pre 0 < limit <= 2^31
i64 widen(TokenType type, const unsigned char* from, i64 count, i64 limit, i32* to);

/// The id at `from` in decimal digits.
std::string id_text(TokenType type, const unsigned char* from);

/// The type of ids below 2^20 that a file begins with: the upper halves of wider integers are zero or nearly
/// so. uint16 for less than 16 ids.
TokenType guess_token_type(const unsigned char* begin, Bytes bytes);

} // namespace trivium
