#pragma once
#include "config/keys.hpp"

namespace trivium {

/// The integers of a file of tokens. `automatic`: what the file's content looks like.
enum class TokenType { automatic, uint8, uint16, uint32, uint64, int8, int16, int32, int64 };
template <>
inline constexpr std::array<std::string_view, 9> names_of_enum<TokenType>{
    "auto", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"};

} // namespace trivium
