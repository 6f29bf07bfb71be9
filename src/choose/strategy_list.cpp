#include "choose/strategy_list.hpp"

#include "base/bisect.hpp"
#include "base/check.hpp"
#include "config/schedules.hpp"
#include "passes/memory/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trivium {

namespace {

/// The level of the least recomputation of a strategy's blocks.
Recompute least_recomputation(const RunConfig& c, const OpenSettings& open)
{
    const ParallelConfig& p = c.parallel;
    if (open.recompute)
        return Recompute::none;
    return p.recompute_layers == 0 ? p.recompute : one_level_less(p.recompute);
}

} // namespace

StrategyList::StrategyList(const RunConfig& config, const SearchConfig& search, Estimator& estimator)
    : config_(config), open_(open_settings(config)), search_(search),
      quick_(estimator, search.clock, search.threads)
{
    ContextForm& form = config_.parallel.context_form;
    if (form == ContextForm::automatic && search.clock.is_device) // as decide()
        form = ContextForm::gather;
}

void StrategyList::add_all(i64 ranks)
{
    for (const ParallelConfig& grid : grids_for(config_, ranks))
        if (is_worth(grid))
            for_each_strategy(config_, open_, grid, search_.clock, [&](const RunConfig& c) { add(c); });
}

bool StrategyList::is_worth(const ParallelConfig& grid)
{
    const std::vector<i64> degrees = tensor_degrees_of(grid);
    const auto [at, added] = of_degrees_.try_emplace(degrees);
    OfDegrees& own = at->second;
    if (!added)
        return own.is_worth;
    bool known = false;
    own.is_worth = false;
    for (std::size_t axis = 0; axis < degrees.size(); ++axis) {
        if (degrees[axis] == 1)
            continue;
        std::vector<i64> smaller = degrees;
        smaller[axis] /= divisors_of(degrees[axis])[1];
        const auto found = of_degrees_.find(smaller);
        if (found == of_degrees_.end())
            continue;
        known = true;
        const OfDegrees& other = found->second;
        own.of_smaller = std::min(own.of_smaller, other.step);
        const bool gets_longer = other.step < INFINITY && other.step >= other.of_smaller;
        own.is_worth = own.is_worth || !gets_longer || !is_slow(other.step);
    }
    own.is_worth = own.is_worth || !known;
    if (!own.is_worth) {
        own.step = own.of_smaller;
        least_left_out_ = std::min(least_left_out_, own.step);
    }
    return own.is_worth;
}

bool StrategyList::smallest_may_fit() const
{
    return smallest_ && smallest_->quick.bytes < 1.1 * search_.room(smallest_->config);
}

void StrategyList::include_slow()
{
    slow_ = least_left_out_ = INFINITY;
    considered_ = 0;
    of_degrees_.clear();
}

void StrategyList::note(const ParallelConfig& grid, Seconds step)
{
    Seconds& least = of_degrees_[tensor_degrees_of(grid)].step;
    least = std::min(least, step);
}

void StrategyList::add(const RunConfig& given)
{
    ++considered_;
    std::optional<Estimated> best;
    try {
        const Seconds least = quick_.least_step(given, least_recomputation(given, open_));
        if (is_slow(least)) {
            note(given.parallel, least);
            least_left_out_ = std::min(least_left_out_, least);
            return;
        }
        const double most = search_.room(given);
        Recompute level = Recompute::automatic; // of recomputation
        bool all_fit = false;                   // of this level: then those above it are slower
        for (RunConfig& c : memory_settings(given, open_)) {
            if (c.parallel.recompute != level && all_fit)
                break;
            const QuickEstimate quick = quick_.estimate(c);
            all_fit = (all_fit || c.parallel.recompute != level) && quick.bytes <= most;
            level = c.parallel.recompute;
            if (!smallest_ || quick.bytes < smallest_->quick.bytes)
                smallest_ = {c, quick};
            if (quick.bytes <= most && (!best || quick.step < best->quick.step))
                best = {c, quick};
        }
        if (best) {
            lessen_recomputation(*best, most);
            if (auto other = in_other_order(best->config, open_, search_.clock))
                if (const QuickEstimate quick = quick_.estimate(*other); quick.step < best->quick.step)
                    best = {std::move(*other), quick};
        }
        note(given.parallel, best ? best->quick.step : least);
    } catch (const UserError&) { // the model does not fit the grid
    }
    if (!best)
        return;
    fastest_ = std::min(fastest_, best->quick.step);
    // Small groups have shorter collectives, but larger shards. Where that gains little, a change of the
    // best.
    constexpr double gains = 0.99;
    std::optional<Estimated> grouped;
    for (RunConfig& c : with_other_groups(best->config, open_)) {
        const Seconds most = grouped ? grouped->quick.step : gains * best->quick.step;
        const QuickEstimate quick = quick_.estimate(c);
        Estimated other{std::move(c), quick};
        if (other.quick.step < most && other.quick.bytes > search_.room(other.config))
            lessen_recomputation(other, search_.room(other.config));
        if (other.quick.step < most && other.quick.bytes <= search_.room(other.config))
            grouped = std::move(other);
    }
    all_.push_back(std::move(*best));
    if (grouped)
        all_.push_back(std::move(*grouped));
}

void StrategyList::lessen_recomputation(Estimated& e, double most)
{
    if (e.config.parallel.recompute == Recompute::none || !open_.recompute || !open_.recompute_layers)
        return;
    const i64 all = e.config.model.repeated();
    const auto with = [&](i64 layers) {
        RunConfig c = e.config;
        c.parallel.recompute_layers = layers == all ? 0 : layers;
        return Estimated{c, quick_.estimate(c)};
    };
    e = with(first_that(i64{1}, all, [&](i64 layers) { return with(layers).quick.bytes <= most; }));
}

void StrategyList::play_best(std::size_t count)
{
    sort();
    std::set<std::string> seen;
    std::vector<Estimated> best;
    for (Estimated& e : all_) {
        if (best.size() == count)
            break;
        if (seen.insert(key_of(e.config)).second)
            best.push_back(std::move(e));
    }
    all_.clear();
    for (Estimated& e : best)
        try {
            e.quick = played(e.config);
            all_.push_back(std::move(e));
        } catch (const UserError&) { // too many stages, for example
        }
    sort();
}

void StrategyList::sort()
{
    std::ranges::stable_sort(
        all_, {}, [](const Estimated& e) { return std::pair(e.quick.step, rank_count(e.config.parallel)); });
}

void StrategyList::replace(std::size_t i, Estimated other)
{
    const auto first = all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
    const auto place = std::ranges::upper_bound(first, all_.end(), other.quick.step, {},
                                                [](const Estimated& e) { return e.quick.step; });
    all_.insert(place, std::move(other));
}

QuickEstimate StrategyList::played(const RunConfig& config)
{
    const std::string key = key_of(config);
    auto known = played_.find(key);
    if (known == played_.end())
        known = played_.emplace(key, quick_.played(config, training_order(config))).first;
    return known->second;
}

std::optional<Estimated> StrategyList::with_less_memory(const RunConfig& config, double most)
{
    return fitting(config, most, recomputation_of(config) + 1);
}

std::optional<Estimated> StrategyList::fitting(const RunConfig& config, double most, i64 least)
{
    if (!open_.recompute)
        return {};
    const i64 layers = config.model.repeated(), stride = open_.recompute_layers ? 1 : layers;
    const auto with = [&](i64 strides) {
        RunConfig made = with_recomputation(config, strides * stride);
        if (!open_.recompute_layers)
            made.parallel.recompute_layers = config.parallel.recompute_layers;
        const QuickEstimate quick = played(made);
        return Estimated{std::move(made), quick};
    };
    const auto fits = [&](i64 strides) { return with(strides).quick.bytes <= most; };
    const i64 first = (least + stride - 1) / stride, last = 2 * layers / stride;
    if (first > last || !fits(last))
        return {};
    return with(first_that(first, last, fits));
}

} // namespace trivium
