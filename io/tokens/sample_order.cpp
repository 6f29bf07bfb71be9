#include "io/tokens/sample_order.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"

#include <bit>

namespace trivium {

namespace {

constexpr std::uint32_t rounds = 6;

/// A bijection of [0, 4^half_bits): a balanced Feistel network (Luby and Rackoff, "How to construct
/// pseudorandom permutations from pseudorandom functions", 1988) with Philox as its round function.
u64 feistel(u64 value, int half_bits, u64 key)
{
    const u64 mask = (u64{1} << half_bits) - 1;
    u64 left = value >> half_bits, right = value & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        const PhiloxBlock block = philox(
            key, {static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(right >> 32), round, 0});
        const u64 mixed = (static_cast<u64>(block[1]) << 32 | block[0]) & mask;
        const u64 next = left ^ mixed;
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

} // namespace

SampleOrder::SampleOrder(i64 samples, u64 seed) : samples_(samples), seed_(seed)
{
    TRV_CHECK(samples > 0, "samples = ", samples);
    const auto bits = static_cast<int>(std::bit_width(static_cast<u64>(samples - 1)));
    half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

i64 SampleOrder::at(i64 index) const
{
    TRV_EXPECT(index >= 0, "index = ", index);
    const i64 epoch = index / samples_;
    const u64 key = RandomStream(seed_, "order of samples").bits_at(static_cast<u64>(epoch));
    // Cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): repeat while the
    // result is out of range; fewer than four times on average, since 4^half_bits < 4 * samples.
    u64 value = static_cast<u64>(index % samples_);
    do
        value = feistel(value, half_bits_, key);
    while (value >= static_cast<u64>(samples_));
    return static_cast<i64>(value);
}

} // namespace trivium
