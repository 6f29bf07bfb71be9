#pragma once
// Which of several sources each sample of a run is from.
#include "io/checkpoint/mixture_history.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace trivium {

/// Integers in the proportions of `weights`: exact if these are integers or decimals of few digits, otherwise
/// to 40 bits. \pre finite, at least 0, one above 0; at most most_sources
std::vector<i64> integer_weights(std::span<const double> weights);

/// The history of a run that reads `sources` with `weights` from sample `first` on. Sources of `before` that
/// are no longer read stay known, so that none is repeated if they are read again. `place`: for each of
/// `sources` its place in the history's.
/// \pre `sources` differ in their data; `before` is of the samples before `first`
MixtureHistory continue_mixture(MixtureHistory before, const std::vector<MixtureSource>& sources,
                                std::span<const i64> weights, i64 first, std::vector<std::size_t>& place);

/// Deals samples to sources such that before every sample the share of each source is within one sample of
/// its weight: R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980). A function of
/// the history and the sample alone. Several threads may call it.
class MixtureOrder {
public:
    /// \pre history.sources[i].samples are those before sample `first`, by the last segment
    MixtureOrder(const MixtureHistory& history, i64 first);

    struct Place {
        std::size_t source = 0;
        i64 index = 0; ///< among the samples of the source
    };
    /// \pre sample >= `first` of the constructor
    Place at(i64 sample) const;
    /// By source: its samples before `sample`. \pre as at()
    std::vector<i64> counts_before(i64 sample) const;

private:
    static constexpr i64 block = 4096; ///< samples

    /// Before a sample.
    struct Credits {
        std::vector<i64> credits; ///< due samples, times the sum of the weights
        std::vector<i64> counts;
    };
    struct Block {
        i64 number = -1;
        std::vector<Place> places;
    };
    std::size_t deal(Credits& state) const;
    const Credits& before_block(i64 number) const;

    i64 first_, sum_ = 0;
    std::vector<i64> weights_;
    std::vector<std::size_t> active_; ///< sources with a weight
    struct Memo {
        std::mutex mutex;
        std::vector<Credits> before; ///< of each block up to now
        std::deque<Block> recent;
    };
    std::unique_ptr<Memo> memo_;
};

} // namespace trivium
