#include "choose/choose_schedule.hpp"

#include "choose/memory_policy.hpp"
#include "config/schedules.hpp"
#include "schedule/named_order.hpp"
#include "schedule/search_order.hpp"

#include <algorithm>
#include <exception>

namespace trivium {

namespace {

/// The kinds of updates that the config may have.
std::vector<UpdateMode> updates_of(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    if (p.update != UpdateMode::automatic)
        return {p.update};
    if (!may_post_validate(config))
        return {UpdateMode::synchronous};
    return {UpdateMode::synchronous, UpdateMode::post_validated};
}

/// The least of what is simulated for each kind of update that fits: a post-validated one must be 1 %
/// shorter, because some steps are clipped.
class Fastest {
public:
    Fastest(Bytes limit, Estimator& estimator, const Machine& clock)
        : limit_(limit), estimator_(estimator), clock_(clock)
    {
    }

    void look_at(const Candidate& candidate)
    {
        for (const UpdateMode update : updates_of(candidate.config)) {
            Candidate tried = candidate;
            tried.config.parallel.update = update;
            Score now;
            try {
                now = estimator_.score({with_usual_policy(tried.config), tried.order}, clock_);
            } catch (const UserError&) { // stages of a program may wait for each other
                refused_ = std::current_exception();
                continue;
            }
            if (best_.order.ranks.empty() ||
                std::pair(!fits(now), cost(tried, now)) < std::pair(!fits(score_), cost(best_, score_))) {
                best_ = std::move(tried);
                score_ = now;
            }
        }
    }
    /// Bytes by which the best is above the limit.
    Bytes excess() const { return limit_ <= 0 ? 0 : std::max<Bytes>(0, score_.arena - limit_); }
    /// Throws the error of the last candidate if none can run.
    std::pair<Candidate, Score> take()
    {
        if (best_.order.ranks.empty() && refused_)
            std::rethrow_exception(refused_);
        return {std::move(best_), score_};
    }

private:
    bool fits(const Score& s) const { return limit_ <= 0 || s.arena <= limit_; }
    static Seconds cost(const Candidate& candidate, const Score& s)
    {
        return candidate.config.parallel.update == UpdateMode::post_validated ? s.step / 0.99 : s.step;
    }

    Bytes limit_;
    Estimator& estimator_;
    const Machine& clock_;
    Candidate best_; ///< without an order before the first
    Score score_;
    std::exception_ptr refused_;
};

/// Bytes that the arena of a rank may have; 0: unknown.
Bytes limit_of(const ParallelConfig& p, const Machine& machine)
{
    return p.memory_limit > 0  ? p.memory_limit
           : machine.is_device ? machine.memory - machine.process
                               : 0; // a host's memory is not known here
}

/// The best order for the microbatch of the config, by simulation of the most promising ones.
std::pair<Candidate, Score> best_order(const RunConfig& config, Estimator& estimator, const Machine& clock)
{
    const ParallelConfig& p = config.parallel;
    const Bytes limit = limit_of(p, clock);
    Candidate plain{with_usual_policy(config), {}};
    plain.config.parallel.update = updates_of(config).front();
    plain.config.parallel.schedule = name_of(ScheduleKind::zb_h1);
    plain.config.parallel.chunks = 0;
    plain.order = training_order(plain.config);
    const BlockCosts costs = estimator.block_costs(plain, clock);
    const Graph whole = graph_of_stages(config);
    std::map<std::pair<i64, bool>, OrderCosts> known; // by shape
    OrderSearch search;
    search.ranks = p.pipeline;
    search.microbatches = microbatch_count(config);
    search.named = schedules_of(p.pipeline, config.model.blocks());
    if (p.chunks > 0)
        std::erase_if(search.named, [&](const auto& each) { return each.second != p.chunks; });
    search.costs = [&](const PipelineShape& shape) {
        const auto [at, added] = known.try_emplace({shape.chunks, shape.v_shaped});
        if (added)
            at->second = costs.of(stages_of(whole, shape, p.stage_layers));
        return at->second;
    };
    const auto peak_of = [&](ScheduleKind kind) {
        const PipelineOrder order = named_order(kind, p.pipeline, 1, search.microbatches);
        const Playback played = *play(order, search.costs(order.shape));
        return *std::max_element(played.peak.begin(), played.peak.end());
    };
    search.most = peak_of(ScheduleKind::zb_h2);
    if (limit > 0) // what it leaves to activations
        search.most = std::max(1.0, static_cast<double>(limit - estimator.score(plain, clock).arena) +
                                        peak_of(ScheduleKind::zb_h1));
    Fastest fastest(limit, estimator, clock);
    // An arena is a little larger than what is alive in it. What may recompute is made to fit later.
    const int tries = config.parallel.recompute == Recompute::automatic ? 1 : 3;
    for (int i = 0; i < tries && (i == 0 || (fastest.excess() > 0 && search.most > 1)); ++i) {
        search.most = std::max(1.0, search.most - 1.1 * static_cast<double>(fastest.excess()));
        std::vector<FoundOrder> candidates = candidate_orders(search);
        if (candidates.empty() && i > 0)
            break;
        if (candidates.empty()) // nothing is expected to fit: what needs least memory, for the error message
            candidates = {{named_order(ScheduleKind::one_f_one_b, p.pipeline, 1, search.microbatches), 0,
                           ScheduleKind::one_f_one_b}};
        for (FoundOrder& found : candidates) {
            Candidate candidate{config, std::move(found.order)};
            candidate.config.parallel.schedule_near = name_of(found.nearest);
            fastest.look_at(candidate);
        }
    }
    return fastest.take();
}

} // namespace

Candidate choose_schedule(const RunConfig& given, Estimator& estimator)
{
    RunConfig config = given;
    const bool searches = config.parallel.schedule == automatic_schedule;
    if (config.parallel.pipeline == 1 && searches) {
        config.parallel.schedule = name_of(ScheduleKind::one_f_one_b);
        config.parallel.chunks = 0;
    }
    if (config.parallel.pipeline == 1 || !searches) {
        Candidate only{config, training_order(config)};
        const std::vector<UpdateMode> updates = updates_of(config);
        if (updates.size() > 1) {
            const Machine clock = deciding_machine(config.parallel, estimator.machine().is_device);
            Fastest fastest(limit_of(config.parallel, clock), estimator, clock);
            fastest.look_at(only);
            return fastest.take().first;
        }
        only.config.parallel.update = updates.front();
        return only;
    }
    const Machine clock = deciding_machine(config.parallel, estimator.machine().is_device);
    const i64 share = config.train.global_batch / batch_ranks(config.parallel);
    std::optional<std::pair<Candidate, Score>> best;
    const Bytes limit = config.parallel.memory_limit;
    const auto rank = [&](const Score& s) { return std::pair(limit > 0 && s.arena > limit, s.step); };
    const auto look_at = [&](i64 micro) {
        RunConfig candidate = config;
        candidate.train.micro_batch = micro;
        std::pair<Candidate, Score> made = best_order(candidate, estimator, clock);
        if (limit > 0 && config.train.micro_batch == 0) { // with the recomputation that it then needs
            const Candidate& order = made.first;
            made.second = estimator.score(
                {with_memory_policy(order.config, order.order, estimator), order.order}, clock);
        }
        if (!best || rank(made.second) < rank(best->second))
            best = std::move(made);
    };
    if (config.train.micro_batch > 0)
        look_at(config.train.micro_batch);
    else
        for (i64 micro = 1; micro <= share; micro *= 2)
            if (share % micro == 0 && share / micro <= 32 * config.parallel.pipeline)
                look_at(micro);
    if (!best)
        look_at(share);
    return std::move(best->first);
}

} // namespace trivium
