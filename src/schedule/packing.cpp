#include "schedule/packing.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace trivium {

namespace {

enum class Fit { best, first };

/// An order of placement and what came of it.
struct Attempt {
    std::vector<std::size_t> order;
    Fit fit = Fit::best;
    Packing packing;
};

class Packer {
public:
    Packer(const std::vector<Bytes>& bytes, const Conflicts& conflicts) : bytes_(bytes), conflicts_(conflicts)
    {
    }

    Packing run(Bytes goal)
    {
        Attempt best{by(bytes_), Fit::best, {}};
        place(best, 0);
        if (best.packing.end <= goal)
            return best.packing;
        Attempt other{by(contention()), Fit::first, {}};
        place(other, 0);
        if (other.packing.end < best.packing.end)
            std::swap(best, other);
        if (bytes_.size() <= few)
            improve(best, goal);
        return best.packing;
    }

private:
    struct Placed {
        Bytes begin = 0, end = 0;
        std::size_t range = 0;
    };
    Placed placed_at(Bytes begin, std::size_t i) const { return {begin, begin + bytes_[i], i}; }

    /// Descending; equal ones in the order of their numbers.
    template <class Key>
    std::vector<std::size_t> by(const std::vector<Key>& keys) const
    {
        std::vector<std::size_t> order(keys.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return keys[a] > keys[b]; });
        return order;
    }

    std::vector<double> contention() const
    {
        std::vector<double> sums(bytes_.size(), 0);
        for (std::size_t a = 0; a < bytes_.size(); ++a) {
            for_each_bit(conflicts_.of(a), [&](std::size_t b) { sums[a] += static_cast<double>(bytes_[b]); });
            sums[a] *= static_cast<double>(bytes_[a]);
        }
        return sums;
    }

    /// Places what stands from position `from` on in the order; what stands before has its offsets. Stops
    /// above `most`, with an end above it.
    void place(Attempt& attempt, std::size_t from, Bytes most = std::numeric_limits<Bytes>::max())
    {
        std::vector<Bytes>& at = attempt.packing.offsets;
        at.resize(bytes_.size(), 0);
        placed_.clear();
        for (std::size_t k = 0; k < from; ++k)
            placed_.push_back(placed_at(at[attempt.order[k]], attempt.order[k]));
        std::ranges::stable_sort(placed_, {}, &Placed::begin);
        work_ += static_cast<double>(attempt.order.size() - from) * static_cast<double>(attempt.order.size());
        for (std::size_t k = from; k < attempt.order.size(); ++k) {
            const std::size_t i = attempt.order[k];
            at[i] = free_place(i, attempt.fit);
            attempt.packing.end = at[i] + bytes_[i];
            if (attempt.packing.end > most)
                return;
            placed_.insert(std::ranges::upper_bound(placed_, at[i], {}, &Placed::begin), placed_at(at[i], i));
        }
        attempt.packing.end = 0;
        for (std::size_t i = 0; i < at.size(); ++i)
            attempt.packing.end = std::max(attempt.packing.end, at[i] + bytes_[i]);
    }

    /// The smallest gap that suffices, or the lowest, between what is in conflict; otherwise their end.
    Bytes free_place(std::size_t i, Fit fit) const
    {
        const Bytes needed = bytes_[i];
        const std::uint64_t* const row = conflicts_.of(i).data();
        Bytes best = -1, best_gap = 0, end = 0;
        for (const Placed& other : placed_) { // half of them are in conflict: one branch, seldom taken
            const bool conflict = (row[other.range / 64] >> other.range % 64 & 1) != 0;
            const Bytes gap = other.begin - end;
            if (static_cast<int>(conflict) & static_cast<int>(gap >= needed)) {
                if (best < 0 || gap < best_gap) {
                    best = end;
                    best_gap = gap;
                    if (fit == Fit::first || gap == needed)
                        return best;
                }
            }
            end = std::max(end, conflict ? other.end : 0);
        }
        return best < 0 ? end : best;
    }

    void improve(Attempt& best, Bytes goal)
    {
        const RandomStream random(0, "packing");
        std::uint64_t draws = 0;
        const auto below = [&](std::size_t n) {
            return static_cast<std::size_t>(random.bits_at(draws++) % n);
        };
        std::vector<std::size_t> high;
        Attempt now = best;
        for (int move = 0; move < most_moves && work_ < most_work && best.packing.end > goal; ++move) {
            const Bytes limit = now.packing.end - (now.packing.end - goal) / 4;
            high.clear();
            for (std::size_t k = 1; k < now.order.size(); ++k)
                if (now.packing.offsets[now.order[k]] + bytes_[now.order[k]] >= limit)
                    high.push_back(k);
            if (high.empty())
                return;
            const std::size_t from = high[below(high.size())], to = below(from);
            Attempt moved = now;
            const auto begin = moved.order.begin();
            std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(from),
                        begin + static_cast<std::ptrdiff_t>(from + 1));
            place(moved, to, now.packing.end);
            if (moved.packing.end <= now.packing.end)
                std::swap(now, moved);
            if (now.packing.end < best.packing.end)
                best = now;
        }
    }

    static constexpr double most_work = 1e8; ///< pairs looked at: a tenth of a second
    static constexpr std::size_t few = 1700; ///< ranges; of more, `most_work` has too few moves to gain
    static constexpr int most_moves = 500;

    const std::vector<Bytes>& bytes_;
    const Conflicts& conflicts_;
    std::vector<Placed> placed_; ///< by begin
    double work_ = 0;
};

/// 64 x 64 bits: a word for each row, whose lowest bit is the first column.
using Square = std::array<std::uint64_t, 64>;

/// Swaps quarters, then the quarters of these, down to single bits (Warren, Hacker's Delight, section 7-3).
Square transposed(Square bits)
{
    std::uint64_t low = 0xffffffff;
    for (std::size_t half = 32; half > 0; half /= 2, low ^= low << half)
        for (std::size_t row = 0; row < 64; row = (row + half + 1) & ~half) {
            const std::uint64_t differ = ((bits[row] >> half) ^ bits[row + half]) & low;
            bits[row] ^= differ << half;
            bits[row + half] ^= differ;
        }
    return bits;
}

} // namespace

void Conflicts::complete()
{
    const auto square = [&](std::size_t rows, std::size_t column) {
        Square bits{};
        for (std::size_t k = 0; k < std::min<std::size_t>(64, n_ - 64 * rows); ++k)
            bits[k] = bits_[(64 * rows + k) * words_ + column];
        return bits;
    };
    const auto add = [&](std::size_t rows, std::size_t column, const Square& bits) {
        for (std::size_t k = 0; k < std::min<std::size_t>(64, n_ - 64 * rows); ++k)
            bits_[(64 * rows + k) * words_ + column] |= bits[k];
    };
    for (std::size_t i = 0; i < words_; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            const Square below = square(i, j), above = square(j, i);
            add(j, i, transposed(below));
            add(i, j, transposed(above));
        }
}

Packing pack(const std::vector<Bytes>& bytes, const Conflicts& conflicts, Bytes goal)
{
    TRV_CHECK(bytes.size() == conflicts.size(), "a size for each row of conflicts");
    return Packer(bytes, conflicts).run(goal);
}

} // namespace trivium
