#pragma once
// Byte-pair encoding of one word: the pair of the best rank is merged, again and again.
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

    /// In order of rank, the best first. Of a pair that stands twice, the later counts.
    explicit BpeMerges(const std::vector<Merge>& merges);

    /// Of equal ranks the leftmost goes first. O(n log n) for n ids.
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
