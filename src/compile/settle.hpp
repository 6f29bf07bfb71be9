#pragma once
// Values for the settings that are "auto" and decide what a rank keeps in memory.
#include "compile/compile.hpp"

namespace trivium {

/// `config` with values for parallel.recompute, gather_every and reduce_every. Without parallel.memory_limit:
/// no recomputation, and what the ZeRO stage is for (gathers in each pass, reductions in each microbatch).
/// With it: the first of these that keeps the largest rank of each stage within the limit, otherwise the
/// last, which needs least: fewest transfers, then more of them, then selective recomputation in one layer,
/// in two, … in all, then full recomputation in one layer, … in all. So what runs depends on the config
/// alone, not on a machine's speed. \pre resolved and validated
RunConfig settle(const RunConfig& config, const CompileConfig& options);

} // namespace trivium
