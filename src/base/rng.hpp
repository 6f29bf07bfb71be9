#pragma once
// Counter-based random numbers: the number at (seed, name, index) is the same on any grid,
// in any order and from any thread. Philox4x32-10 of Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3" (SC11).
#include <array>
#include <cstdint>
#include <string_view>

namespace trivium {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Ten Philox rounds of `counter` under `key`.
PhiloxBlock philox(std::uint64_t key, const PhiloxBlock& counter);

/// One stream of numbers, addressed by index. Its functions share Philox blocks: use only one of them per
/// stream.
class RandomStream {
public:
    /// `name` distinguishes the streams of one seed, e.g. a parameter's global name.
    RandomStream(std::uint64_t seed, std::string_view name);

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
