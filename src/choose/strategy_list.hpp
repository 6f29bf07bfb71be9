#pragma once
// Strategies by closed forms, from which a search simulates the best.
#include "choose/quick_estimate.hpp"
#include "choose/strategy_space.hpp"

#include <cmath>
#include <functional>
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
    /// `room`: bytes that the arena of a strategy may have; infinite: unknown. All must outlive the list.
    StrategyList(const OpenSettings& open, const Machine& clock, QuickEstimator& quick,
                 std::function<double(const RunConfig&)> room)
        : open_(open), clock_(clock), quick_(quick), room_(std::move(room))
    {
    }

    /// Whether a grid may have the best strategy: not if, with a smaller degree of each axis that shards
    /// tensors, steps are slow, and slower than with a still smaller one. \pre grids with smaller degrees
    /// were added
    bool is_worth(const ParallelConfig& grid);
    /// Adds a strategy with the settings for memory that take the least time of those that fit, unless a
    /// lower bound says that it is slow: 1.25 times as slow as the fastest one that fits, in closed form.
    void add(const RunConfig& given);
    /// A lower bound of the steps of all that were left out; infinite: none was.
    Seconds least_left_out() const { return least_left_out_; }
    /// From now on nothing is left out.
    void include_slow();
    /// Leaves the `count` best, and plays them.
    void play_best(std::size_t count);
    /// Replaces the i-th best by one that has been played, which takes its place by time, here or later.
    void replace(std::size_t i, Estimated other);

    std::size_t considered() const { return considered_; } ///< calls of add()
    std::size_t size() const { return all_.size(); }
    const Estimated& operator[](std::size_t i) const { return all_[i]; } ///< after play_best() the i-th best
    /// Of all that were tried, the one with the smallest arena.
    const std::optional<Estimated>& smallest() const { return smallest_; }

    /// QuickEstimator::played() of a strategy, in the order of its schedule. Throws UserError if it is not
    /// legal.
    QuickEstimate played(const RunConfig& config);
    /// Nearly the least recomputation, more than that of `config`, with which a played step needs at most
    /// `most` bytes.
    std::optional<Estimated> with_less_memory(const RunConfig& config, double most);
    /// The same, with at least this recomputation (recomputation_of()), more or less than that of `config`.
    std::optional<Estimated> fitting(const RunConfig& config, double most, i64 least);

private:
    bool is_slow(Seconds step) const { return step > slow_ * fastest_; }
    void note(const ParallelConfig& grid, Seconds step);
    /// Recomputes in as few layers as `most` bytes allow.
    void lessen_recomputation(Estimated& e, double most);
    void sort();

    const OpenSettings& open_;
    const Machine& clock_;
    QuickEstimator& quick_;
    std::function<double(const RunConfig&)> room_;
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
