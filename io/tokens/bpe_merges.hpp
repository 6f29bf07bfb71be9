#pragma once
// Byte-pair encoding of one pre-token (Sennrich, Haddow and Birch, 2016): repeatedly merges the adjacent pair
// of the lowest rank.
#include "base/units.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace trivium {

class BpeMerges {
public:
    struct Merge {
        std::int32_t left = 0, right = 0;
        std::int32_t result = 0;
    };

    /// `merges` in order of rank, lowest first. If a pair occurs twice, the later entry counts.
    explicit BpeMerges(const std::vector<Merge>& merges);

    /// Merges in place; of pairs of equal rank, the leftmost first. O(n log n) for n ids. \pre ids >= 0
    void apply(std::vector<std::int32_t>& ids) const;

private:
    struct Ranked {
        std::uint32_t rank;
        std::int32_t result;
    };
    const Ranked* find(std::int32_t left, std::int32_t right) const;
    std::unordered_map<u64, Ranked> table_; ///< by left and right
};

} // namespace trivium
