#include "io/tokens/formats/token_types.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace trivium {

static_assert(std::endian::native == std::endian::little, "ids are read without conversion");

namespace {

template <class T>
T id_at(const unsigned char* from)
{
    T id;
    std::memcpy(&id, from, sizeof id);
    return id;
}

template <class T>
i64 widen_as(const unsigned char* from, i64 count, i64 limit, i32* to)
{
    constexpr auto size = static_cast<i64>(sizeof(T));
    const auto is_good = [limit](T id) { return static_cast<u64>(id) < static_cast<u64>(limit); };
    bool all_good = true;
    for (i64 i = 0; i < count; ++i) {
        const T id = id_at<T>(from + i * size);
        to[i] = static_cast<i32>(id);
        all_good &= is_good(id);
    }
    i64 good = all_good ? count : 0;
    while (good < count && is_good(id_at<T>(from + good * size)))
        ++good;
    return good;
}

/// Whether integers of `words` 16-bit words explain the words better than uint16.
bool looks_wide(const unsigned char* begin, Bytes bytes, i64 words)
{
    constexpr i64 enough = 16;
    const i64 count = bytes / (2 * words);
    std::uint16_t low = 0, high = 0, rest = 0;
    for (i64 i = 0; i < count * words; ++i) {
        std::uint16_t& most = i % words == 0 ? low : i % words == 1 ? high : rest;
        most = std::max(most, id_at<std::uint16_t>(begin + 2 * i));
    }
    // Small ids in uint16 have small words everywhere; a file of zeros may be anything.
    return count >= enough && rest == 0 && high < 16 && low > (high == 0 ? 0 : 255);
}

} // namespace

Bytes size_of(TokenType type)
{
    return with_token_type(type, [](auto id) { return static_cast<Bytes>(sizeof id); });
}

i64 widen(TokenType type, const unsigned char* from, i64 count, i64 limit, i32* to)
{
    return with_token_type(type, [&](auto id) { return widen_as<decltype(id)>(from, count, limit, to); });
}

std::string id_text(TokenType type, const unsigned char* from)
{
    return with_token_type(type, [&](auto id) { return std::to_string(id_at<decltype(id)>(from)); });
}

TokenType guess_token_type(const unsigned char* begin, Bytes bytes)
{
    return looks_wide(begin, bytes, 4)   ? TokenType::uint64
           : looks_wide(begin, bytes, 2) ? TokenType::uint32
                                         : TokenType::uint16;
}

} // namespace trivium
