#include "base/rng.hpp"

#include <cmath>
#include <numbers>

namespace trivium {

namespace {

std::uint64_t mix(std::uint64_t x) // the finaliser of SplitMix64
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

double to_unit(std::uint32_t high, std::uint32_t low)
{
    const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
}

PhiloxBlock counter_of(std::uint64_t index)
{
    return {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}};
}

/// 64-bit FNV-1a with a final mix: the same on every platform.
std::uint64_t stable_hash(std::string_view text, std::uint64_t seed)
{
    std::uint64_t hash = 0xcbf29ce484222325ull ^ mix(seed + 0x9e3779b97f4a7c15ull);
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return mix(hash);
}

} // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : key_(stable_hash(name, seed)) {}

std::uint64_t RandomStream::bits_at(std::uint64_t index) const
{
    const PhiloxBlock block = philox(key_, counter_of(index));
    return static_cast<std::uint64_t>(block[0]) << 32 | block[1];
}

double RandomStream::uniform_at(std::uint64_t index) const
{
    const PhiloxBlock block = philox(key_, counter_of(index));
    return to_unit(block[0], block[1]);
}

std::array<double, 2> RandomStream::normal_pair(std::uint64_t pair) const
{
    const PhiloxBlock block = philox(key_, counter_of(pair));
    const double radius = std::sqrt(-2 * std::log(1 - to_unit(block[0], block[1])));
    const double angle = 2 * std::numbers::pi * to_unit(block[2], block[3]);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace trivium
