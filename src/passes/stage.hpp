#pragma once
// Pipeline stages: which blocks a stage has, and what of the graph it runs.
#include "ir/graph.hpp"

#include <map>

namespace trivium {

struct StageConfig {
    std::vector<int> stage_of_block;  ///< ascending
    int stage = 0;                    ///< whose part is wanted
    std::string axis = pipeline_axis; ///< mesh axis along which stages send to each other
};

/// Consecutive blocks for each of `stages` stages, so that the costliest stage costs as little as possible
/// (flops of a forward pass, and a little for each byte). Throws UserError where there are fewer blocks than
/// stages.
std::vector<int> balance_stages(const Graph& graph, i64 stages);

/// What stage `config.stage` runs of a sharded graph; sharded in and out. Of the microbatch region, the ops
/// of its blocks; of the prologue, what those read; of the epilogue, the updates of the parameters that it
/// has (one that several stages have is updated in each, alike), and what they and the outputs need. A value
/// of another stage's microbatch is sent and received, after it has been resharded where that is all that
/// happens to it. An op that contributes leaves out the operands that an earlier stage has.
Graph extract_stage(const Graph& graph, const StageConfig& config);

/// The stages that have each parameter and each optimizer state, ascending.
std::map<std::string, std::vector<int>> stages_holding(const Graph& graph,
                                                       const std::vector<int>& stage_of_block);

} // namespace trivium
