#include "choose/memory_policy.hpp"

#include "base/bisect.hpp"

#include <algorithm>
#include <utility>

namespace trivium {

namespace {

/// The values that a setting may take, those that need least memory last.
template <class Enum>
std::vector<Enum> values_of(Enum given, Enum automatic, std::vector<Enum> all)
{
    return given == automatic ? std::move(all) : std::vector<Enum>{given};
}

/// Policies of which each needs more communication or work than the one before, and less memory. The first
/// `ways` differ in gathers and reductions, the others in recomputation alone.
struct Policies {
    std::vector<RunConfig> configs;
    std::size_t ways = 1;
};

Policies policies_of(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    std::vector<std::pair<GatherEvery, ReduceEvery>> transfers = transfers_of(p);
    if (p.memory_limit == 0)
        transfers = {transfers.back()};
    Policies policies;
    const auto add = [&](GatherEvery gather, ReduceEvery reduce, Recompute again, i64 layers) {
        RunConfig& candidate = policies.configs.emplace_back(config);
        candidate.parallel.gather_every = gather;
        candidate.parallel.reduce_every = reduce;
        candidate.parallel.recompute = again;
        candidate.parallel.recompute_layers = layers;
    };
    const bool automatic = p.recompute == Recompute::automatic;
    const Recompute least = automatic ? Recompute::none : p.recompute;
    const i64 layers = automatic ? 0 : p.recompute_layers;
    for (const auto& [gather, reduce] : transfers)
        add(gather, reduce, least, layers);
    if (automatic && p.memory_limit > 0)
        for (const Recompute again : {Recompute::selective, Recompute::full})
            for (i64 some = 1; some <= config.model.repeated(); ++some)
                add(transfers.back().first, transfers.back().second, again,
                    some == config.model.repeated() ? 0 : some);
    policies.ways = transfers.size();
    return policies;
}

} // namespace

std::vector<std::pair<GatherEvery, ReduceEvery>> transfers_of(const ParallelConfig& p)
{
    const bool shards = shard_ranks(p) > 1;
    std::vector<GatherEvery> gathers{GatherEvery::pass};
    if (shards && p.zero == 3)
        gathers = values_of(p.gather_every, GatherEvery::automatic,
                            {GatherEvery::step, GatherEvery::microbatch, GatherEvery::pass});
    std::vector<ReduceEvery> reductions{ReduceEvery::microbatch};
    if (shards && p.zero >= 2)
        reductions =
            values_of(p.reduce_every, ReduceEvery::automatic, {ReduceEvery::step, ReduceEvery::microbatch});
    std::vector<std::pair<GatherEvery, ReduceEvery>> all;
    for (const GatherEvery gather : gathers)
        for (const ReduceEvery reduce : reductions)
            all.emplace_back(gather, reduce);
    return all;
}

RunConfig with_memory_policy(const RunConfig& config, const PipelineOrder& order, Estimator& estimator)
{
    const auto [configs, ways] = policies_of(config);
    const auto fits = [&, &all = configs](std::size_t at) {
        return estimator.needs({all[at], order}, {.arena = config.parallel.memory_limit}).has_value();
    };
    const std::size_t last = configs.size() - 1;
    std::size_t first = 0;
    for (; first < std::min(ways, last); ++first)
        if (fits(first))
            return configs[first];
    return configs[first_that(first, last, fits)]; // the others differ in recomputation alone
}

RunConfig with_usual_policy(RunConfig config)
{
    const Bytes limit = std::exchange(config.parallel.memory_limit, 0);
    config = policies_of(config).configs.back();
    config.parallel.memory_limit = limit;
    config.parallel.bucket = usual_buckets(config.parallel);
    return config;
}

} // namespace trivium
