#pragma once
// Values that the backward phase computes again, so that they are not kept from the forward phase. Global
// graph in and out.
#include "config/run_config.hpp"
#include "ir/graph.hpp"

namespace trivium {

struct RecomputeConfig {
    bool gathers = false; ///< gathered parameters
    /// Activations. Selective: the ops that are `cheap` in the op table (Korthikanti et al., "Reducing
    /// activation recomputation in large transformer models", arXiv:2205.05198, section 5). Full: each layer
    /// from its input (Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174).
    /// \pre not automatic
    Recompute activations = Recompute::none;
    /// The number of layers in which they are, evenly spread; 0: all. The other layers recompute one level
    /// less: with full selectively, otherwise nothing.
    i64 layers = 0;
    bool parts = false; ///< copies of parts of a value
};

/// Clones each chosen op of the forward phase before the first op of the same block in the backward phase
/// that reads its result. Readers in other blocks keep the original: another pipeline stage may run them.
Graph recompute(Graph graph, const RecomputeConfig& config);

} // namespace trivium
