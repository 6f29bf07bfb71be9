#pragma once
// Recomputes values in the backward phase, so that they are not kept from the forward phase. Global or
// sharded graph in, the same level out.
#include "config/run_config.hpp"
#include "ir/graph.hpp"

namespace trivium {

struct RecomputeConfig {
    bool gathers = false; ///< gathers parameters again
    /// Which ops recompute activations. Selective: those that are `cheap` in the op table (Korthikanti et
    /// al., "Reducing activation recomputation in large transformer models", arXiv:2205.05198, section 5).
    /// Full: all of a layer, from its input (Chen et al., "Training deep nets with sublinear memory cost",
    /// arXiv:1604.06174). \pre not Recompute::automatic
    Recompute activations = Recompute::none;
    /// The number of layers that recompute `activations`, evenly spread; 0: all. The other layers recompute
    /// one level less: with full selectively, otherwise nothing.
    i64 layers = 0;
    bool parts = false; ///< recomputes the results of ops that split a value
    bool ends = false;  ///< the first and the last block are layers, too
};

/// What the layers recompute that do not recompute `activations`: RecomputeConfig::layers.
constexpr Recompute one_level_less(Recompute activations)
{
    return activations == Recompute::full ? Recompute::selective : Recompute::none;
}

/// What a block recomputes. `last`: the last block.
Recompute recomputed_in(int block, const RecomputeConfig& config, int last);

/// Clones each chosen op of the forward phase before the first backward op of the same block that reads its
/// result; for the phase `weights`, before the block's first backward op. Readers in other blocks keep the
/// original: another pipeline stage may run them.
Graph recompute(Graph graph, const RecomputeConfig& config);

} // namespace trivium
