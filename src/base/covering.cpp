#include "base/covering.hpp"

#include "base/rng.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace trivium {

namespace {

using Row = std::vector<int>;
using Level = std::pair<int, int>; ///< factor, level
using Pair = std::pair<Level, Level>;

bool counts(const CoveringRules& rules, const Row& row, const Pair& pair)
{
    return !rules.counts || rules.counts(row, pair.first.first, pair.second.first);
}

/// A row with the given leading levels and one pair; nullopt if they conflict or the pair does not count.
std::optional<Row> begin_row(const Row& setting, std::size_t factors, const Pair& pair,
                             const CoveringRules& rules)
{
    Row row = setting;
    row.resize(factors, -1);
    for (const auto& [factor, level] : {pair.first, pair.second}) {
        int& at = row[static_cast<std::size_t>(factor)];
        if (at >= 0 && at != level)
            return {};
        at = level;
    }
    return counts(rules, row, pair) ? std::optional(row) : std::nullopt;
}

/// The pairs of the factors that have a level, if they count.
std::vector<Pair> pairs_of(const Row& row, const CoveringRules& rules)
{
    std::vector<Pair> all;
    for (int f = 0; f < static_cast<int>(row.size()); ++f)
        for (int g = f + 1; g < static_cast<int>(row.size()); ++g) {
            const Pair pair{{f, row[static_cast<std::size_t>(f)]}, {g, row[static_cast<std::size_t>(g)]}};
            if (pair.first.second >= 0 && pair.second.second >= 0 && counts(rules, row, pair))
                all.push_back(pair);
        }
    return all;
}

std::vector<Pair> pairs_of_levels(const Row& levels)
{
    std::vector<Pair> all;
    for (int f = 0; f < static_cast<int>(levels.size()); ++f)
        for (int a = 0; a < levels[static_cast<std::size_t>(f)]; ++a)
            for (int g = f + 1; g < static_cast<int>(levels.size()); ++g)
                for (int b = 0; b < levels[static_cast<std::size_t>(g)]; ++b)
                    all.push_back({{f, a}, {g, b}});
    return all;
}

/// A set of pairs, as a table: it is asked for each candidate of each row.
class PairSet {
public:
    explicit PairSet(const Row& levels) : pairs_(pairs_of_levels(levels))
    {
        for (const int count : levels) {
            first_.push_back(levels_);
            levels_ += static_cast<std::size_t>(count);
        }
        has_.resize(levels_ * levels_);
    }

    const std::vector<Pair>& all_pairs() const { return pairs_; }
    bool contains(const Pair& pair) const { return has_[index(pair)]; }
    void insert(const Pair& pair) { has_[index(pair)] = true; }
    void erase(const Pair& pair) { has_[index(pair)] = false; }
    /// The first in the order of all_pairs(); nullptr if it is empty. \pre pairs are not inserted after this
    const Pair* first()
    {
        while (next_ < pairs_.size() && !contains(pairs_[next_]))
            ++next_;
        return next_ < pairs_.size() ? &pairs_[next_] : nullptr;
    }

private:
    std::size_t at(const Level& level) const
    {
        return first_[static_cast<std::size_t>(level.first)] + static_cast<std::size_t>(level.second);
    }
    std::size_t index(const Pair& pair) const { return at(pair.first) * levels_ + at(pair.second); }

    std::vector<Pair> pairs_;
    std::vector<std::size_t> first_; ///< by factor: the index of its first level
    std::size_t levels_ = 0, next_ = 0;
    std::vector<bool> has_;
};

/// How many pairs of the row the set contains; without rules, of those with `factor`, if it is one.
std::ptrdiff_t count_in(const PairSet& set, const Row& row, std::size_t factor, const CoveringRules& rules)
{
    std::ptrdiff_t count = 0;
    const auto look = [&](std::size_t f, std::size_t g) {
        const Pair pair{{static_cast<int>(f), row[f]}, {static_cast<int>(g), row[g]}};
        count += row[f] >= 0 && row[g] >= 0 && set.contains(pair) && counts(rules, row, pair);
    };
    if (!rules.counts && factor < row.size()) { // the other pairs are those of every candidate
        for (std::size_t f = 0; f < row.size(); ++f)
            if (f != factor)
                look(std::min(f, factor), std::max(f, factor));
        return count;
    }
    for (std::size_t f = 0; f < row.size(); ++f)
        for (std::size_t g = f + 1; g < row.size(); ++g)
            look(f, g);
    return count;
}

} // namespace

std::vector<Row> covering_array(const Row& levels, const CoveringRules& rules)
{
    const std::vector<Row> settings =
        full_product({levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(rules.leading)});
    PairSet missing(levels);
    for (const Pair& pair : missing.all_pairs())
        if (std::any_of(settings.begin(), settings.end(), [&](const Row& setting) {
                return begin_row(setting, levels.size(), pair, rules).has_value();
            }))
            missing.insert(pair);
    std::vector<Row> rows;
    const auto add = [&](const Row& row) {
        for (const Pair& pair : pairs_of(row, rules))
            missing.erase(pair);
        rows.push_back(row);
    };
    std::for_each(rules.begun.begin(), rules.begun.end(), add);
    const RandomStream ties(0, "covering");
    while (const Pair* const first = missing.first()) {
        std::optional<Row> row;
        // Of `count` rows from `make`, the one with the most new pairs; ties are broken from a random place.
        const auto choose = [&](std::size_t factor, std::size_t count, const auto& make) {
            const auto start =
                static_cast<std::size_t>(ties.bits_at(rows.size() * (levels.size() + 1) + factor) % count);
            std::optional<Row> best;
            std::ptrdiff_t most = -1;
            for (std::size_t n = 0; n < count; ++n)
                if (const std::optional<Row> made = make((start + n) % count)) {
                    const std::ptrdiff_t fresh = count_in(missing, *made, factor, rules);
                    if (fresh > most) {
                        most = fresh;
                        best = made;
                    }
                }
            row = best;
        };
        choose(levels.size(), settings.size(),
               [&](std::size_t n) { return begin_row(settings[n], levels.size(), *first, rules); });
        for (std::size_t f = 0; f < levels.size(); ++f)
            if ((*row)[f] < 0)
                choose(f, static_cast<std::size_t>(levels[f]), [&, partial = *row](std::size_t level) {
                    Row made = partial;
                    made[f] = static_cast<int>(level);
                    return std::optional(made);
                });
        add(*row);
    }
    return rows;
}

std::vector<std::vector<int>> full_product(const std::vector<int>& levels)
{
    std::vector<std::vector<int>> rows{{}};
    for (const int count : levels) {
        std::vector<std::vector<int>> longer;
        for (const std::vector<int>& row : rows)
            for (int a = 0; a < count; ++a) {
                longer.push_back(row);
                longer.back().push_back(a);
            }
        rows = std::move(longer);
    }
    return rows;
}

} // namespace trivium
