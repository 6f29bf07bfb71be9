#include "mpi/launch/siphash.hpp"

#include <bit>

namespace trivium {

namespace {

struct State {
    u64 v0, v1, v2, v3;

    void rounds(int count)
    {
        for (int i = 0; i < count; ++i) {
            v0 += v1, v1 = std::rotl(v1, 13), v1 ^= v0, v0 = std::rotl(v0, 32);
            v2 += v3, v3 = std::rotl(v3, 16), v3 ^= v2;
            v0 += v3, v3 = std::rotl(v3, 21), v3 ^= v0;
            v2 += v1, v1 = std::rotl(v1, 17), v1 ^= v2, v2 = std::rotl(v2, 32);
        }
    }
    void take(u64 word)
    {
        v3 ^= word;
        rounds(2);
        v0 ^= word;
    }
};

/// Little-endian.
u64 number_in(std::string_view bytes)
{
    u64 number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
}

} // namespace

u64 siphash(const SipKey& key, std::string_view text)
{
    State s{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
            key[1] ^ 0x7465646279746573};
    const std::size_t whole = text.size() / 8 * 8;
    for (std::size_t at = 0; at < whole; at += 8)
        s.take(number_in(text.substr(at, 8)));
    s.take(number_in(text.substr(whole)) | u64{text.size()} << 56);
    s.v2 ^= 0xff;
    s.rounds(4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

} // namespace trivium
