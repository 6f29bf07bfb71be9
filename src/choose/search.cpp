#include "choose/search.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "choose/strategy_list.hpp"
#include "compile/describe.hpp"
#include "compile/graphs.hpp"
#include "config/schedules.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>

namespace trivium {

namespace {

class Search {
public:
    Search(const RunConfig& config, i64 ranks, const SearchConfig& search, Estimator& estimator)
        : ranks_(ranks), search_(search), estimator_(estimator), list_(config, search, estimator),
          config_(list_.config()), open_(list_.open())
    {
    }

    SearchResult run()
    {
        choose();
        // What seemed to be the fastest may not fit, or take longer.
        if (list_.least_left_out() < (best() ? best()->score.step : INFINITY)) {
            list_.include_slow();
            choose();
        }
        if (const auto& smallest = list_.smallest(); result_.strategies.empty() && smallest) {
            result_.smallest = smallest->config;
            if (list_.smallest_may_fit()) {
                simulate(smallest->config, true);
                settle();
            }
        }
        return std::move(result_);
    }

private:
    void choose()
    {
        done_ = attempts_ = 0;
        list_.add_all(ranks_);
        result_.considered = list_.considered();
        list_.play_best(scaled(search_.effort.played));
        simulate_best();
        simulate_rules();
        improve();
        for (int again = 0; settle() && again < 2; ++again) { // others may be better than what is left
            done_ = attempts_ = 0;
            simulate_best();
        }
    }

    /// A little less where more can be recomputed: rough scores have lower bounds of arenas.
    StageLimits rough_limits_of(const RunConfig& c) const
    {
        const bool most = c.parallel.recompute == Recompute::full && c.parallel.recompute_layers == 0;
        return open_.recompute && !most ? search_.limits(c).less(100) : search_.limits(c);
    }

    const Strategy* best() const
    {
        const auto at =
            std::ranges::min_element(result_.strategies, {}, [](const Strategy& s) { return s.score.step; });
        return at == result_.strategies.end() ? nullptr : &*at;
    }

    Candidate candidate_of(const RunConfig& c) const
    {
        Candidate candidate{c, training_order(c)};
        candidate.config.parallel.threads = search_.threads(c.parallel);
        candidate.config.parallel.memory_limit = 0;
        return candidate;
    }

    /// Whether a strategy with this played step is hardly the best: simulated steps are seldom shorter, of
    /// programs not by much.
    bool is_far(Seconds played) const
    {
        const double least = (config_.model.is_program() ? 0.99 : 1) * least_longer_;
        return best() && least * played > best()->score.step;
    }
    /// The same, also by what similar strategies that were simulated took longer.
    bool is_hopeless(const RunConfig& c, Seconds played) const
    {
        const auto is_known = [&](const std::string& key, double margin) {
            const auto known = longer_.find(key);
            return known != longer_.end() && best() && played * known->second > margin * best()->score.step;
        };
        if (is_far(played) || is_known(kind_key(c), 1.002))
            return true;
        // What ZeRO moves in microbatches makes the step of a pipeline longer still.
        if (c.model.is_program() || c.parallel.pipeline == 1)
            return false;
        const auto lower = std::views::iota(i64{0}, static_cast<i64>(c.parallel.zero));
        return std::ranges::any_of(lower, [&](i64 zero) { return is_known(passes_key(c, zero), 1.005); });
    }

    /// Simulates a strategy, if that has not been done; with more recomputation if it needs too much memory,
    /// and `always`, or that may still be the best. Returns whether it has been simulated.
    /// `closed`: the bytes in closed form of which similar strategies let expect that they fit.
    bool simulate(RunConfig c, bool always = false, double closed = 0)
    {
        for (int tries = 0; tries < 3; ++tries) {
            std::optional<Estimated> less;
            if (simulate_once(c, always, less, closed))
                return true;
            if (!less)
                return false;
            c = std::move(less->config);
        }
        return false;
    }

    /// The same, but only sets `less` to one with more recomputation.
    bool simulate_once(const RunConfig& c, bool always, std::optional<Estimated>& less, double closed = 0)
    {
        constexpr double surely = 1.08; // of the room: what fits has a smaller closed form, nearly always
        QuickEstimate quick;
        Score score;
        try {
            quick = list_.played(c);
            if (!always && is_hopeless(c, quick.step))
                return false;
            if (!always && quick.bytes > std::max(closed, surely * search_.room(c))) {
                less = list_.with_less_memory(c, margin * search_.room(c));
                return false;
            }
            if (!simulated_.insert(key_of(c)).second)
                return false;
            ++attempts_;
            score = estimator_.rough_score(candidate_of(c), search_.clock, rough_limits_of(c));
        } catch (const UserError&) { // too many stages, for example
            return false;
        }
        if (score.fits) {
            const double longer = score.step / quick.step;
            for (std::string key : {kind_key(c), passes_key(c, c.parallel.zero)}) {
                double& known = longer_.try_emplace(std::move(key), longer).first->second;
                known = std::min(known, longer);
            }
            least_longer_ = std::min(least_longer_, longer);
        }
        const double most = search_.room(c);
        const std::optional<double> growth = growth_of(c, score, most, always);
        if (!growth) {
            ++done_;
            return false;
        }
        const double arena = as_double(score.arena) * *growth;
        if (score.fits && arena <= most) {
            ++done_;
            result_.strategies.push_back({c, std::move(score), rule_of(c, search_.clock)});
            return true;
        }
        const double beyond = std::max(0.0, arena - quick.bytes); // of the first stage that is too large
        too_large_[kind_key(c) + growth_key(c)] = beyond;
        const bool is_slower = score.fits && best() && score.step >= best()->score.step;
        if (is_slower && !always)
            return false;
        less = list_.with_less_memory(c, margin * most - beyond);
        return false;
    }

    /// Of a strategy with the same passes, and this stage of ZeRO.
    static std::string passes_key(const RunConfig& c, i64 zero)
    {
        return str(growth_key(c), " ", describe_degrees(c.parallel), " ", c.train.micro_batch, " ", zero);
    }
    static std::string growth_key(const RunConfig& c)
    {
        return str(c.parallel.schedule, " ", c.parallel.chunks, " ", c.parallel.pipeline);
    }
    /// How much larger a planned arena is than that of a rough score. Where ranks have several stages, it may
    /// be a tenth: with all microbatches they keep more at a time. Nothing if that is not known of a strategy
    /// that is slower than the best, unless it is needed `always`.
    std::optional<double> growth_of(const RunConfig& c, const Score& score, double most, bool always)
    {
        constexpr double at_most = 1.35, nearly = 1.02;
        const double bound = as_double(score.arena);
        const Candidate candidate = candidate_of(c);
        if (!score.fits || candidate.order.shape.chunks == 1 || at_most * bound <= most)
            return 1;
        if (!always && best() && score.step > nearly * best()->score.step && !growth_.contains(growth_key(c)))
            return {};
        const auto [at, added] = growth_.try_emplace(growth_key(c), 1);
        if (added)
            at->second = estimator_.growth(candidate);
        return at->second;
    }

    /// Whether the closed form, with what simulated arenas exceeded it by, says that it does not fit.
    bool is_too_large(const Estimated& e) const
    {
        const auto known = too_large_.find(kind_key(e.config) + growth_key(e.config));
        return known != too_large_.end() && e.quick.bytes + known->second > search_.room(e.config);
    }

    /// SearchEffort, for the model's depth.
    std::size_t scaled(std::size_t count) const
    {
        constexpr std::size_t usual = 40, least = 6;
        const auto blocks = static_cast<std::size_t>(config_.model.blocks());
        return std::max(std::min(count, least), count * usual / std::max(usual, blocks));
    }

    /// First the best strategy of each grid, then the next ones.
    void simulate_best()
    {
        const std::size_t effort = scaled(search_.effort.simulated);
        constexpr int most_of_grid = 4;
        for (int round = 0; round < most_of_grid; ++round) {
            std::map<std::vector<i64>, int> counts;
            for (std::size_t i = 0; i < list_.size();) {
                const Estimated e = list_[i];
                if (done_ >= effort || attempts_ >= 3 * effort)
                    return;
                if (is_far(e.quick.step))
                    break;
                int& count = counts[degrees_of(e.config.parallel)];
                std::optional<Estimated> less;
                if (count == round && !is_too_large(e))
                    simulate_once(e.config, false, less);
                if (less && (best() || attempts_ < effort)) {
                    list_.replace(i, std::move(*less)); // it takes the turn where its time is
                    continue;
                }
                if (less) // others would hardly fit either
                    simulate(std::move(less->config));
                ++count;
                ++i;
            }
        }
    }

    /// Each rule that some estimated strategy follows has been simulated.
    void simulate_rules()
    {
        std::set<std::string> seen;
        for (const Strategy& s : result_.strategies)
            seen.insert(s.rule);
        for (std::size_t i = 0; i < list_.size(); ++i) {
            const RunConfig& c = list_[i].config;
            const std::string rule = rule_of(c, search_.clock);
            if (!rule.empty() && !seen.contains(rule) && simulate(c, true))
                seen.insert(rule);
        }
    }

    /// The best strategy with a grid for which `other` holds, if it is nearly as fast as the best of all.
    std::optional<Strategy> best_of(double nearly,
                                    const std::function<bool(const ParallelConfig&)>& other) const
    {
        std::optional<Strategy> found;
        for (const Strategy& s : result_.strategies)
            if (other(s.config.parallel) && s.score.step < nearly * best()->score.step &&
                (!found || s.score.step < found->score.step))
                found = s;
        return found;
    }

    /// Climbs from the best strategy, from the best one of another grid, and from the best one with another
    /// number of stages, if those are nearly as fast.
    void improve()
    {
        if (!best())
            return;
        const Strategy first = *best();
        const auto second = best_of(1.03, [&](const ParallelConfig& p) {
            return degrees_of(p) != degrees_of(first.config.parallel);
        });
        const auto third = best_of(1.01, [&](const ParallelConfig& p) {
            return p.pipeline != first.config.parallel.pipeline &&
                   !(second && p.pipeline == second->config.parallel.pipeline);
        });
        climb(first);
        for (const auto& other : {second, third})
            if (other)
                climb(*other);
        if (const auto other = in_other_order(best()->config, open_, search_.clock)) // for the report
            simulate(*other, true);
    }

    /// The strategies that differ from this one in one setting, by their closed forms, the fastest first.
    std::vector<Estimated> near(const Strategy& now)
    {
        // Closed forms of neighbours are wrong by the same, nearly.
        const auto growth = growth_.find(growth_key(now.config));
        const double closed = list_.played(now.config).bytes,
                     beyond =
                         as_double(now.score.arena) * (growth == growth_.end() ? 1 : growth->second) - closed;
        std::vector<RunConfig> all = neighbours(now.config, config_, open_, search_.clock);
        if (auto less =
                list_.fitting(now.config, std::max(closed, margin * search_.room(now.config) - beyond), 0);
            less && recomputation_of(less->config) < recomputation_of(now.config))
            all.push_back(std::move(less->config));
        std::vector<Estimated> near;
        std::set<std::string> seen = simulated_;
        const Seconds most = 1.1 * list_.estimate(now.config).step; // beyond, it is not worth playing
        for (RunConfig& c : all)
            try {
                if (!seen.insert(key_of(c)).second || list_.estimate(c).step > most)
                    continue;
                QuickEstimate quick = list_.played(c);
                if (quick.bytes + std::min(0.0, beyond) <= 1.1 * search_.room(c))
                    near.push_back({std::move(c), quick});
            } catch (const UserError&) { // not legal
            }
        std::ranges::stable_sort(near, {}, [](const Estimated& e) { return e.quick.step; });
        return near;
    }

    /// Changes one setting, most promising first, until no change makes the step shorter.
    void climb(Strategy now)
    {
        std::size_t done = 0;
        for (bool better = true; better;) {
            better = false;
            const Seconds now_played = list_.played(now.config).step;
            for (const Estimated& e : near(now)) {
                if (is_hopeless(e.config, e.quick.step))
                    continue;
                if (done++ == scaled(search_.effort.moves) || e.quick.step > 1.02 * now_played)
                    return;
                better = simulate(e.config, false, e.quick.bytes) &&
                         result_.strategies.back().score.step < now.score.step * (1 - 1e-4);
                if (better) {
                    now = result_.strategies.back();
                    break;
                }
            }
        }
    }

    /// The first strategy, or the best of another kind that is nearly as fast, without an exact score; the
    /// number of strategies if there is none. `rough`: the least of the rough scores, which in pipelines have
    /// no good buckets where microbatches have collectives, or stages many layers. \pre sorted
    std::size_t next_to_settle(Seconds rough) const
    {
        const auto nearly = [](const RunConfig& c) {
            constexpr i64 few = 16; // microbatches: then buckets of the step matter, too
            const ParallelConfig& p = c.parallel;
            return p.pipeline > 1 && (transfers_in_microbatches(p) || microbatch_count(c) < few) ? 1.01
                                                                                                 : 1.003;
        };
        const std::vector<Strategy>& all = result_.strategies;
        std::set<std::vector<i64>> seen;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const ParallelConfig& p = all[i].config.parallel;
            std::vector<i64> kind = degrees_of(p);
            if (p.pipeline == 1 &&
                !all[i].config.model.is_program()) // they differ in buckets, and plans take little time
                kind.insert(kind.end(), {p.zero, p.shard});
            const bool is_first = seen.insert(std::move(kind)).second;
            const bool is_near =
                is_first && search_.effort.moves > 0 &&
                all[i].score.step < nearly(all[i].config) * std::max(rough, all[0].score.step);
            if ((i < search_.effort.exact || is_near) && !all[i].exact)
                return i;
        }
        return all.size();
    }

    /// Sorts the strategies, and scores the first of them exactly; drops those that do not fit after all.
    /// Returns whether what is left is slower than the best seemed.
    bool settle()
    {
        std::vector<Strategy>& all = result_.strategies;
        const auto sort = [&] {
            std::ranges::stable_sort(all, {}, [](const Strategy& s) {
                return std::tuple(s.score.step, rank_count(s.config.parallel), s.config.parallel.zero);
            });
        };
        sort();
        const Seconds hoped = all.empty() ? INFINITY : all.front().score.step;
        int tries = 3; // to rescue strategies whose planned arena is too large
        for (std::size_t i = 0; (i = next_to_settle(hoped)) < all.size(); sort()) {
            const RunConfig config = all[i].config;
            const Bytes bound = all[i].score.arena;
            all[i].score = estimator_.score(candidate_of(config), search_.clock, search_.limits(config));
            all[i].exact = true;
            if (!all[i].score.fits) {
                const auto planned = as_double(all[i].score.arena);
                all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
                // How much others are expected to grow: not as much as this one.
                const double expected = 1 + 0.75 * (planned / as_double(bound) - 1);
                std::erase_if(all, [&](const Strategy& s) {
                    return !s.exact && growth_key(s.config) == growth_key(config) &&
                           expected * as_double(s.score.arena) > search_.room(s.config);
                });
                if (tries-- > 0)
                    rescue(config, std::max(0.0, planned - list_.played(config).bytes));
            }
        }
        return all.empty() ? hoped < INFINITY : all.front().score.step > 1.005 * hoped;
    }

    /// Simulates the fastest strategy with more recomputation that may fit. `beyond`: by what the planned
    /// arena of this one exceeds its closed form.
    void rescue(const RunConfig& config, double beyond)
    {
        std::vector<Estimated> others;
        if (auto less = list_.with_less_memory(config, search_.room(config) - beyond))
            others.push_back(std::move(*less));
        if (open_.recompute && open_.recompute_layers && config.parallel.recompute_layers > 0) {
            RunConfig all = config; // seldom is a stage too large of whose layers all recompute
            all.parallel.recompute_layers = 0;
            others.push_back({all, list_.played(all)});
        }
        std::ranges::stable_sort(others, {}, [](const Estimated& e) { return e.quick.step; });
        for (Estimated& e : others)
            if (simulate(std::move(e.config), true))
                return;
    }

    /// Of the room for an arena, what a closed form fills that is corrected by one of a neighbour.
    static constexpr double margin = 0.985;

    i64 ranks_;
    const SearchConfig& search_;
    Estimator& estimator_;
    StrategyList list_;
    const RunConfig& config_;
    const OpenSettings& open_;
    std::set<std::string> simulated_;
    std::size_t attempts_ = 0;             ///< rough scores
    std::size_t done_ = 0;                 ///< of them, of strategies that fit or are slower than the best
    std::map<std::string, double> longer_; ///< by kind_key() and passes_key(): simulated / played step, least
    double least_longer_ = 1;              ///< of all kinds, at most 1
    std::map<std::string, double> growth_; ///< by growth_key(): planned arena / rough one
    /// By kind_key() and growth_key(): arena - closed form, where that was too large.
    std::map<std::string, double> too_large_;
    SearchResult result_;
};

} // namespace

SearchResult search_strategies(const RunConfig& config, i64 ranks, const SearchConfig& search,
                               Estimator& estimator)
{
    return Search(config, ranks, search, estimator).run();
}

RunConfig choose_strategy(const RunConfig& config, i64 ranks, const SearchConfig& search,
                          Estimator& estimator)
{
    SearchResult found = search_strategies(config, ranks, search, estimator);
    if (!found.strategies.empty())
        return std::move(found.strategies.front().config);
    if (found.smallest)
        return std::move(*found.smallest);
    throw_no_grid(config, ranks);
}

void throw_no_grid(const RunConfig& config, i64 ranks)
{
    throw UserError(
        {"[parallel]", str("no grid has ", counted(ranks, "rank")),
         str("data ranks share ", counted(common_batch(config.train), "sequence"), ", stages ",
             counted(config.model.blocks(), "block"),
             config.model.is_program() ? "" : str(", tensor ranks ", counted(config.model.heads, "head"))),
         str("take fewer ranks, or a larger train.global_batch; the grid of the config is ",
             describe_grid(config.parallel))});
}

} // namespace trivium
