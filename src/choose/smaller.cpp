#include "choose/smaller.hpp"

#include "base/check.hpp"
#include "choose/choose_schedule.hpp"
#include "choose/least_bytes.hpp"
#include "choose/memory_policy.hpp"
#include "choose/search.hpp"
#include "choose/strategy_list.hpp"
#include "config/schedules.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

std::vector<SmallerSetting> smaller_settings(const Candidate& candidate, const Machine& machine)
{
    const RunConfig& config = candidate.config;
    std::vector<SmallerSetting> all;
    RunConfig last = config;
    std::string together;
    const auto add = [&](const std::string& overrides, const RunConfig& changed) {
        const bool same = changed.parallel.schedule == config.parallel.schedule &&
                          changed.parallel.chunks == config.parallel.chunks &&
                          microbatch_count(changed) == microbatch_count(config);
        all.push_back({overrides, {changed, same ? candidate.order : PipelineOrder{}}});
    };
    const auto combine = [&](const std::string& overrides) {
        together += (together.empty() ? "" : " ") + overrides;
    };
    RunConfig changed = config;
    while (zero_ranks(config.parallel) > 1 && changed.parallel.zero < 3) {
        ++changed.parallel.zero;
        add(str("parallel.zero=", changed.parallel.zero), changed);
    }
    if (changed.parallel.zero != config.parallel.zero)
        combine("parallel.zero=3");
    last.parallel.zero = changed.parallel.zero;
    changed = config;
    for (const Recompute more : {Recompute::selective, Recompute::full})
        if (static_cast<int>(config.parallel.recompute) < static_cast<int>(more)) {
            changed.parallel.recompute = more;
            add(str("parallel.recompute=", name_of(more)), changed);
        }
    if (changed.parallel.recompute != config.parallel.recompute)
        combine("parallel.recompute=full");
    last.parallel.recompute = changed.parallel.recompute;
    // Schedules with fewer activations.
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::v_half, ScheduleKind::v_min}) {
        changed = config;
        changed.parallel.schedule = name_of(kind);
        changed.parallel.schedule_near.clear();
        changed.parallel.chunks = 0;
        if (config.parallel.pipeline > 1 && changed.parallel.schedule != config.parallel.schedule &&
            config.parallel.pipeline * chunks_of(kind).usual <= config.model.blocks())
            add(str("parallel.schedule=", name_of(kind),
                    config.parallel.chunks > 0 ? " parallel.chunks=0" : ""),
                changed);
    }
    changed = config;
    const i64 micro = micro_batch(config);
    const bool fixed = is_schedule_file(config.parallel.schedule);
    for (i64 part = fixed ? 0 : micro / 2; part >= 1; part /= 2)
        if (micro % part == 0) {
            changed.train.micro_batch = part;
            add(str("train.micro_batch=", part), changed);
        }
    changed = config;
    changed.parallel.offload = Offload::optimizer;
    if (config.parallel.offload != Offload::optimizer && !machine.is_device)
        add("parallel.offload=optimizer", changed);
    changed = config;
    changed.parallel.context_form = ContextForm::ring;
    if (block_ranks(config.parallel) > 1 && config.parallel.context_form == ContextForm::gather)
        add("parallel.context_form=ring", changed);
    const std::string without_micro = together;
    const RunConfig less = last;
    if (micro > 1 && !fixed) {
        combine("train.micro_batch=1");
        last.train.micro_batch = 1;
    }
    const auto is_new = [](const std::string& text) { return text.find(' ') != std::string::npos; };
    if (is_new(without_micro) && without_micro != together)
        add(without_micro, less);
    if (is_new(together))
        add(together, last);
    return all;
}

std::vector<std::string> settings_within(const Candidate& candidate, Estimator& estimator, Bytes limit,
                                         std::size_t count)
{
    std::vector<std::string> found;
    for (const SmallerSetting& each : smaller_settings(candidate, estimator.machine())) {
        if (found.size() == count)
            break;
        Candidate smaller = each.candidate;
        if (smaller.order.ranks.empty())
            smaller = choose_schedule(smaller.config, estimator);
        smaller.config = with_usual_policy(std::move(smaller.config));
        if (estimator.needs(smaller, {.arena = limit}))
            found.push_back(each.overrides);
    }
    return found;
}

namespace {

/// Whether lower bounds of the arenas are within `most` and the config's limit. Avoids compiling, which takes
/// seconds for a large model.
bool may_fit(const RunConfig& config, const Machine& machine, Bytes most)
{
    const Bytes limit = config.parallel.memory_limit;
    const auto fits = [&](Bytes arena) {
        return (limit == 0 || arena <= limit) && (most == 0 || arena + machine.process <= most);
    };
    return fits(least_bytes_of_largest(config)) && fits(std::ranges::max(least_bytes_of_stages(config)));
}

} // namespace

std::optional<Bytes> bytes_of_largest(const Candidate& given, Estimator& estimator, Bytes most)
{
    try {
        if (!may_fit(given.config, estimator.machine(), most))
            return std::nullopt;
        Candidate candidate = given.order.ranks.empty() ? choose_schedule(given.config, estimator) : given;
        candidate.config = with_memory_policy(candidate.config, candidate.order, estimator);
        const std::vector<Bytes> least = least_bytes_of_stages(given.config);
        const Bytes bound = std::ranges::max(least);
        const auto may_be_largest = [&](i64 stage) {
            return stage < 2 || stage + 1 == candidate.order.shape.ranks ||
                   least[static_cast<std::size_t>(stage)] > bound * 4 / 5;
        };
        const std::optional<StagesNeed> need =
            estimator.needs(candidate, {given.config.parallel.memory_limit, most, may_be_largest});
        return need ? std::optional(need->bytes) : std::nullopt;
    } catch (const UserError&) { // the model does not fit the grid
        return std::nullopt;
    }
}

std::optional<RunConfig> fitting_strategy(const RunConfig& config, i64 ranks, SearchConfig search,
                                          Estimator& estimator)
{
    search.effort = {20, 1, 0, 1};
    // Of the room, that closed forms may fill, and planned arenas.
    constexpr double by_formula = 0.85, planned = 0.95;
    constexpr int most_tries = 3;
    StrategyList list(config, search, estimator);
    list.add_all(ranks);
    list.play_best(search.effort.played);
    const auto fits = [&](const RunConfig& c) {
        const Candidate candidate{c, training_order(c)};
        const Score score = estimator.rough_score(candidate, search.clock, search.limits(c).less(10));
        const bool grows = score.fits && candidate.order.shape.chunks > 1;
        const double growth = grows ? estimator.growth(candidate) : 1;
        return score.fits && as_double(score.arena) * growth <= planned * search.room(c);
    };
    int tries = 0;
    for (std::size_t i = 0; i < list.size() && tries < most_tries; ++i)
        try {
            RunConfig c = list[i].config;
            const double most = by_formula * search.room(c);
            if (list[i].quick.bytes > most) {
                auto less = list.fitting(c, most, 0);
                if (!less)
                    continue;
                c = std::move(less->config);
            }
            ++tries;
            if (fits(c))
                return c;
        } catch (const UserError&) { // too many stages, for example
        }
    if (list.size() == 0 && list.least_left_out() == INFINITY && !list.smallest_may_fit())
        return {}; // a search would simulate nothing either
    SearchResult found = search_strategies(config, ranks, search, estimator);
    return found.strategies.empty() ? std::nullopt
                                    : std::optional(std::move(found.strategies.front().config));
}

} // namespace trivium
