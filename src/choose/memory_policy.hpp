#pragma once
// Values for the settings that are "auto" and trade memory for time: parallel.recompute, gather_every and
// reduce_every.
#include "choose/estimator.hpp"

namespace trivium {

/// `config` with values where these are "auto". Without parallel.memory_limit: no recomputation, gathers in
/// each pass, reductions in each microbatch. With it: the first of these that keeps the largest rank of each
/// stage within the limit, otherwise the last, which needs least: fewest transfers, then more of them, then
/// selective recomputation in one layer, in two, … in all, then full recomputation in one layer, … in all. So
/// it depends on the config alone, not on a machine's speed. \pre resolved and validated; parallel.schedule
/// stands for `order`
RunConfig with_memory_policy(const RunConfig& config, const PipelineOrder& order, Estimator& estimator);

/// The pairs of parallel.gather_every and reduce_every that a config leaves open and that have an effect on
/// its grid, those that need least memory last.
std::vector<std::pair<GatherEvery, ReduceEvery>> transfers_of(const ParallelConfig& config);

/// with_memory_policy() as if there were no limit, without an Estimator, and with usual_buckets().
RunConfig with_usual_policy(RunConfig config);

} // namespace trivium
