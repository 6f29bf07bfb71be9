#pragma once
// Strategies by closed forms, from which a search simulates the best.
#include "choose/quick_estimate.hpp"
#include "choose/search_config.hpp"
#include "choose/strategy_space.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <vector>

namespace trivium {

/// A strategy, and what closed forms say of it.
struct Estimated {
    RunConfig config;
    QuickEstimate quick;
};

class StrategyList {
public:
    /// Of `config` with the settings that it leaves open. \pre `search` and `estimator` outlive the list
    StrategyList(const RunConfig& config, const SearchConfig& search, Estimator& estimator);

    /// Adds all strategies on at most `ranks` ranks, each with the settings for memory that take the least
    /// time of those that fit. Leaves out what a lower bound says is slow: 1.25 times as slow as the fastest
    /// one that fits, in closed form.
    void add_all(i64 ranks);
    /// A lower bound of the steps of all that were left out; infinite: none was.
    Seconds least_left_out() const { return least_left_out_; }
    /// From now on nothing is left out.
    void include_slow();
    /// Leaves the `count` best, and plays them.
    void play_best(std::size_t count);
    /// Replaces the i-th best by one that has been played, which takes its place by time, here or later.
    void replace(std::size_t i, Estimated other);

    std::size_t considered() const { return considered_; } ///< number of strategies, with what was left out
    std::size_t size() const { return all_.size(); }
    const Estimated& operator[](std::size_t i) const { return all_[i]; } ///< after play_best() the i-th best
    /// Of all that were tried, the one with the smallest arena.
    const std::optional<Estimated>& smallest() const { return smallest_; }
    /// Whether it may fit after all: its closed form may be too high.
    bool smallest_may_fit() const;

    /// QuickEstimator::estimate().
    QuickEstimate estimate(const RunConfig& config) { return quick_.estimate(config); }
    /// QuickEstimator::played() of a strategy, in the order of its schedule. Throws UserError if it is not
    /// legal.
    QuickEstimate played(const RunConfig& config);
    /// Nearly the least recomputation, more than that of `config`, with which a played step needs at most
    /// `most` bytes.
    std::optional<Estimated> with_less_memory(const RunConfig& config, double most);
    /// The same, with at least this recomputation (recomputation_of()), more or less than that of `config`.
    std::optional<Estimated> fitting(const RunConfig& config, double most, i64 least);

    const RunConfig& config() const { return config_; }
    const OpenSettings& open() const { return open_; }

private:
    /// Whether a grid may have the best strategy: not if, with a smaller degree of each axis that shards
    /// tensors, steps are slow, and slower than with a still smaller one. \pre grids with smaller degrees
    /// were added
    bool is_worth(const ParallelConfig& grid);
    void add(const RunConfig& given);
    bool is_slow(Seconds step) const { return step > slow_ * fastest_; }
    void note(const ParallelConfig& grid, Seconds step);
    /// Recomputes in as few layers as `most` bytes allow.
    void lessen_recomputation(Estimated& e, double most);
    void sort();

    RunConfig config_;
    const OpenSettings open_;
    const SearchConfig& search_;
    QuickEstimator quick_;
    std::vector<Estimated> all_;
    double slow_ = 1.25;
    Seconds fastest_ = INFINITY, least_left_out_ = INFINITY;
    /// The shortest step with some degrees of the axes that shard tensors (of what is slow or does not fit: a
    /// bound), and with a smaller degree of one of them; infinite: unknown.
    struct OfDegrees {
        Seconds step = INFINITY, of_smaller = INFINITY;
        bool is_worth = true;
    };
    std::map<std::vector<i64>, OfDegrees> of_degrees_;
    std::size_t considered_ = 0;
    std::optional<Estimated> smallest_;
    std::map<std::string, QuickEstimate> played_; ///< by key_of()
};

} // namespace trivium
