#pragma once
// Offsets for ranges of given sizes, where some pairs of ranges must not overlap.
#include "base/units.hpp"

#include <cstdint>
#include <vector>

namespace trivium {

/// A symmetric relation over the ranges 0 … n - 1: the pairs that must not share bytes.
class Conflicts {
public:
    explicit Conflicts(std::size_t n) : n_(n), words_((n + 63) / 64), bits_(n * words_, 0) {}

    std::size_t size() const { return n_; }
    void add(std::size_t a, std::size_t b)
    {
        bits_[a * words_ + b / 64] |= std::uint64_t{1} << b % 64;
        bits_[b * words_ + a / 64] |= std::uint64_t{1} << a % 64;
    }
    bool of(std::size_t a, std::size_t b) const { return (bits_[a * words_ + b / 64] >> b % 64 & 1) != 0; }

private:
    std::size_t n_, words_;
    std::vector<std::uint64_t> bits_; ///< n rows
};

struct Packing {
    std::vector<Bytes> offsets; ///< by range
    Bytes end = 0;              ///< of the highest range
};

/// Offsets with the lowest end that was found, such that ranges in conflict are disjoint. Places the ranges,
/// `bytes` long, one after another, the largest first, each into the smallest gap that suffices (best fit:
/// Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"). If that ends above
/// `goal`, tries first fit, in the order of size times the sizes in conflict. Then, within a fixed amount of
/// work, moves the highest ranges to earlier places of the order and keeps each move that does not raise the
/// end. Deterministic. \pre bytes.size() == conflicts.size()
Packing pack(const std::vector<Bytes>& bytes, const Conflicts& conflicts, Bytes goal);

} // namespace trivium
