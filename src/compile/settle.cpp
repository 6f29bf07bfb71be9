#include "compile/settle.hpp"

#include "compile/choose_schedule.hpp"
#include "compile/smaller.hpp"

namespace trivium {

namespace {

/// The values that a setting may take, those that need least memory last.
template <class Enum>
std::vector<Enum> values_of(Enum given, Enum automatic, std::vector<Enum> all)
{
    return given == automatic ? std::move(all) : std::vector<Enum>{given};
}

} // namespace

RunConfig settle(const RunConfig& given, const CompileConfig& options)
{
    RunConfig with_microbatch = given;
    with_microbatch.train.micro_batch = micro_batch(given);
    const RunConfig config = choose_schedule(with_microbatch, options);
    const ParallelConfig& p = config.parallel;
    const bool shards = shard_ranks(p) > 1;
    std::vector<GatherEvery> gathers{GatherEvery::pass};
    if (shards && p.zero == 3)
        gathers = values_of(p.gather_every, GatherEvery::automatic,
                            {GatherEvery::step, GatherEvery::microbatch, GatherEvery::pass});
    std::vector<ReduceEvery> reductions{ReduceEvery::microbatch};
    if (shards && p.zero >= 2)
        reductions =
            values_of(p.reduce_every, ReduceEvery::automatic, {ReduceEvery::step, ReduceEvery::microbatch});
    // Each needs more communication or work than the one before, and less memory.
    std::vector<RunConfig> candidates;
    const auto add = [&](GatherEvery gather, ReduceEvery reduce, Recompute again, i64 layers) {
        RunConfig& candidate = candidates.emplace_back(config);
        candidate.parallel.gather_every = gather;
        candidate.parallel.reduce_every = reduce;
        candidate.parallel.recompute = again;
        candidate.parallel.recompute_layers = layers;
    };
    const bool automatic = p.recompute == Recompute::automatic;
    const Recompute least = automatic ? Recompute::none : p.recompute;
    const i64 layers = automatic ? 0 : p.recompute_layers;
    if (p.memory_limit > 0)
        for (const GatherEvery gather : gathers)
            for (const ReduceEvery reduce : reductions)
                add(gather, reduce, least, layers);
    else
        add(gathers.back(), reductions.back(), least, layers);
    if (automatic && p.memory_limit > 0)
        for (const Recompute again : {Recompute::selective, Recompute::full})
            for (i64 some = 1; some <= config.model.layers; ++some)
                add(gathers.back(), reductions.back(), again, some == config.model.layers ? 0 : some);
    // The first that fits. All but the last few differ in recomputation alone: a binary search.
    std::size_t first = 0, last = candidates.size() - 1;
    const std::size_t ways = p.memory_limit > 0 ? gathers.size() * reductions.size() : 1;
    for (; first < std::min(ways, last); ++first)
        if (is_within(candidates[first], options, p.memory_limit))
            return candidates[first];
    while (first < last) {
        const std::size_t middle = first + (last - first) / 2;
        if (is_within(candidates[middle], options, p.memory_limit))
            last = middle;
        else
            first = middle + 1;
    }
    return candidates[last];
}

} // namespace trivium
