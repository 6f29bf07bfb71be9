#pragma once
// Counter-based random numbers: the number at (seed, name, index) is the same on any grid,
// in any order and from any thread. Philox4x32-10 of Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3" (SC11).
#include "base/bf16.hpp" // TRV_HOST_DEVICE

#include <array>
#include <cstdint>
#include <string_view>

namespace trivium {

struct PhiloxBlock { // not std::array, whose operators a device cannot call
    std::uint32_t word[4];

    TRV_HOST_DEVICE std::uint32_t operator[](int i) const { return word[i]; }
    bool operator==(const PhiloxBlock&) const = default;
};

/// Ten Philox rounds of `counter` under `key`.
TRV_HOST_DEVICE inline PhiloxBlock philox(std::uint64_t key, const PhiloxBlock& counter)
{
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    PhiloxBlock c = counter;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
              static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/// One stream of numbers, addressed by index. Its functions share Philox blocks: use only one of them per
/// stream.
class RandomStream {
public:
    /// `name` distinguishes the streams of one seed, e.g. a parameter's global name.
    RandomStream(std::uint64_t seed, std::string_view name);

    std::uint64_t key() const { return key_; } ///< for philox()
    std::uint64_t bits_at(std::uint64_t index) const;
    /// Uniform in [0, 1), 53 bits.
    double uniform_at(std::uint64_t index) const;
    /// Standard normals at 2 pair and 2 pair + 1 (Box-Muller).
    std::array<double, 2> normal_pair(std::uint64_t pair) const;
    double normal_at(std::uint64_t index) const { return normal_pair(index / 2)[index % 2]; }

private:
    std::uint64_t key_;
};

} // namespace trivium
