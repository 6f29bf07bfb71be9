#pragma once
// The cases of "the same result on every grid": factors, their levels, and the case for a choice of levels.
#include "grid/grid_run.hpp"

namespace trivium::grids {

/// Every grid of 1, 2, 4, 6 and 8 ranks.
const std::vector<ParallelConfig>& all_grids();

/// The factors of a case. f_family: Llama, GPT-2, or in f64 two mixes of options (config/option_sets.hpp).
/// The full product of the first seven runs in tests/soak.
enum Factor {
    f_grid,
    f_family,
    f_schedule,
    f_zero,
    f_sequence,
    f_tied,
    f_heads,
    f_microbatches,
    f_bucket,
    f_overlap,
    f_often, ///< how often ZeRO gathers and reduces
    f_group, ///< whether ZeRO shards over all data ranks, or in groups
    f_recompute,
    f_tile, ///< whether large weights are gathered in tiles
    f_offload,
    f_variant, ///< in f64, whether there are documents, and how they are packed; otherwise the precision
    f_optimizer,
    f_trained, ///< all, or adapters, such with magnitudes, what is not frozen; not in f64, all or one of
               ///< these
    factor_count
};
/// Levels of each: in f64, or in the others (f32, f32 reduced in bf16, bf16, bf16 accumulated in bf16) with
/// fewer ways to shard and merge.
std::vector<int> factor_levels(bool f64);

/// The case for one level of each factor, but f_variant; any choice is valid. Layers, vocabulary,
/// feed-forward columns, sequence and heads do not divide evenly over the ranks; heads are sharded by
/// key-value heads, in groups, or by queries. 24 sequences.
Case case_of(const std::vector<int>& levels);

/// The product of the first seven factors in f64; the other factors alternate.
std::vector<Case> product_cases();
/// Covers every pair of levels: in f64 for three steps, or in the other precisions for 20.
const std::vector<Case>& covering_cases(bool f64);

/// The one-rank outcome of a case, with all documents apart; cached for cases with the same. In f64, requires
/// that its first gradient is that of the plain reference within 1e-9.
const Outcome& alone_outcome(const Case& c);

} // namespace trivium::grids
