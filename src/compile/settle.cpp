#include "compile/settle.hpp"

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

RunConfig settle(const RunConfig& config, const CompileConfig& options)
{
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
    std::vector<RunConfig> candidates;
    const auto add = [&](GatherEvery gather, ReduceEvery reduce, Recompute again) {
        RunConfig& candidate = candidates.emplace_back(config);
        candidate.parallel.gather_every = gather;
        candidate.parallel.reduce_every = reduce;
        candidate.parallel.recompute = again;
    };
    const std::vector<Recompute> levels = values_of(p.recompute, Recompute::automatic,
                                                    {Recompute::none, Recompute::selective, Recompute::full});
    for (const GatherEvery gather : gathers)
        for (const ReduceEvery reduce : reductions)
            add(gather, reduce, levels.front());
    for (std::size_t i = 1; i < levels.size(); ++i)
        add(gathers.back(), reductions.back(), levels[i]);
    if (p.memory_limit == 0)
        add(gathers.back(), reductions.back(), levels.front());
    else
        for (std::size_t i = 0; i + 1 < candidates.size(); ++i)
            if (is_within(candidates[i], options, p.memory_limit))
                return candidates[i];
    return candidates.back();
}

} // namespace trivium
