#pragma once
// How far a run has read each of its training stores, and with which weights.
#include "base/units.hpp"

#include <numeric>
#include <string>
#include <vector>

namespace trivium {

/// A store that the run has read, or reads.
struct MixtureSource {
    std::string path{}; ///< where it was last
    std::string data{}; ///< TokenStore::content(), by which it is known
    i64 samples = 0;    ///< samples read of it

    bool operator==(const MixtureSource&) const = default;
};

/// Samples of the run with the same weights, up to the first sample of the next segment.
struct MixtureSegment {
    i64 first = 0;              ///< the run's sample with which it begins
    std::vector<i64> weights{}; ///< by source; of those that the run had by then
    std::vector<i64> counts{};  ///< by source: samples read before it

    i64 weight_sum() const { return std::accumulate(weights.begin(), weights.end(), i64{0}); }
    bool operator==(const MixtureSegment&) const = default;
};

/// Together with the seed it determines the samples of a run. Empty: one store whose samples are those of
/// the run.
struct MixtureHistory {
    std::vector<MixtureSource> sources{};
    std::vector<MixtureSegment> segments{};

    bool empty() const { return sources.empty(); }
    bool operator==(const MixtureHistory&) const = default;
};

/// Limits of a history: sources, and the sum of a segment's weights.
inline constexpr i64 most_sources = 4096, most_weight = i64{1} << 42;

} // namespace trivium
