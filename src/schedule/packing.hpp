#pragma once
// Offsets for ranges of given sizes, where some pairs of ranges must not overlap.
#include "base/units.hpp"

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace trivium {

/// Calls visit(i) for each bit i that is set, in ascending order.
template <class Visit>
void for_each_bit(std::span<const std::uint64_t> words, Visit&& visit)
{
    for (std::size_t w = 0; w < words.size(); ++w)
        for (std::uint64_t left = words[w]; left != 0; left &= left - 1)
            visit(w * 64 + static_cast<std::size_t>(std::countr_zero(left)));
}

/// A symmetric relation over the ranges 0 … n - 1: the pairs that must not share bytes.
class Conflicts {
public:
    explicit Conflicts(std::size_t n) : n_(n), words_((n + 63) / 64), bits_(n * words_, 0) {}

    std::size_t size() const { return n_; }
    /// Adds the pair (a, b), for complete() to make symmetric.
    void add(std::size_t a, std::size_t b) { bits_[a * words_ + b / 64] |= std::uint64_t{1} << b % 64; }
    /// Adds the pairs of `a` with the ranges whose bits are set in `others`, for complete() to make
    /// symmetric.
    void add(std::size_t a, const std::vector<std::uint64_t>& others)
    {
        for (std::size_t w = 0; w < words_; ++w)
            bits_[a * words_ + w] |= others[w];
    }
    /// Adds the pair (b, a) for each pair (a, b).
    void complete();
    /// The bits of the ranges in conflict with `a`.
    std::span<const std::uint64_t> of(std::size_t a) const { return {&bits_[a * words_], words_}; }
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
/// `goal`, tries first fit, in the order of size times the sizes in conflict. Then, if there are few ranges,
/// moves the highest ones to earlier places of the order, within a fixed amount of work, and keeps each move
/// that does not raise the end. Deterministic. \pre bytes.size() == conflicts.size()
Packing pack(const std::vector<Bytes>& bytes, const Conflicts& conflicts, Bytes goal);

} // namespace trivium
