#pragma once
// Offsets for things of given sizes of which some pairs must not overlap.
#include "base/units.hpp"

#include <cstdint>
#include <vector>

namespace trivium {

/// A symmetric relation over 0 … n - 1: which pairs must not share bytes.
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
    std::vector<Bytes> offsets;
    Bytes end = 0; ///< of the highest
};

/// Offsets such that those in conflict are disjoint, of the lowest end found. Places one after another, the
/// largest first, each into the smallest gap that suffices (best fit: Pisarchyk and Lee 2020, "Efficient
/// memory management for deep neural net inference"). Unless that ends at or below `goal`, also tries an
/// order by size times the size of what is in conflict, each into the lowest gap (first fit); then, within a
/// fixed amount of work, moves what ends highest to earlier places of the order and keeps what is no worse.
/// The result depends on the arguments alone. \pre as many sizes as conflicts has rows
Packing pack(const std::vector<Bytes>& bytes, const Conflicts& conflicts, Bytes goal);

} // namespace trivium
