#pragma once
// Byte-pair encoding of one pre-token (Sennrich, Haddow and Birch, 2016): repeatedly merges the adjacent pair
// of the lowest rank.
#include "base/units.hpp"

#include <cstdint>
#include <vector>

namespace trivium {

class BpeMerges {
public:
    struct Merge {
        std::int32_t left = 0, right = 0;
        std::int32_t result = 0;
    };

    /// `merges` in order of rank, lowest first. If a pair occurs twice, the later entry counts. \pre ids >= 0
    explicit BpeMerges(const std::vector<Merge>& merges);

    /// Merges ids[0 … count) in place; of pairs of equal rank, the leftmost first. Returns the new count.
    /// O(n log n). Allocates for long words only. \pre ids >= 0
    std::size_t apply(std::int32_t* ids, std::size_t count) const;

private:
    struct Entry {
        std::int32_t left = -1, right = -1; ///< -1: a free place
        std::uint32_t rank = 0;
        std::int32_t result = 0;
    };
    const Entry* find(std::int32_t left, std::int32_t right) const;
    std::size_t place_of(std::int32_t left, std::int32_t right) const;
    std::size_t apply_to_short(std::int32_t* ids, std::size_t count) const;
    std::size_t apply_to_long(std::int32_t* ids, std::size_t count) const;

    std::vector<Entry> table_; ///< open addressing; at most half full
    int shift_ = 0;
};

} // namespace trivium
