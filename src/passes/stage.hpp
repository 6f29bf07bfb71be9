#pragma once
// Pipeline stages: the blocks of a stage, and the part of the graph that it runs.
#include "ir/graph.hpp"

#include <map>

namespace trivium {

struct StageConfig {
    std::vector<int> stage_of_block;  ///< ascending
    int stage = 0;                    ///< the stage to extract
    std::string axis = pipeline_axis; ///< mesh axis along which stages exchange messages
};

/// Assigns consecutive blocks to each of `stages` stages, such that the most expensive stage costs as little
/// as possible (FLOPs of a forward pass, plus a little for each byte). Throws UserError if there are fewer
/// blocks than stages.
std::vector<int> balance_stages(const Graph& graph, i64 stages);

/// The part of a sharded graph that stage `config.stage` runs; sharded graph in and out. Microbatch region:
/// the ops of its blocks. Prologue: the ops that those need. Epilogue: the updates of the parameters that it
/// holds, and everything that these and the outputs need. A parameter that several stages hold is updated
/// identically on each. A value from another stage's microbatch is sent and received; if it is only
/// resharded, it is resharded before it is sent. An op that contributes leaves out the operands that an
/// earlier stage holds.
Graph extract_stage(const Graph& graph, const StageConfig& config);

/// The stages that hold each parameter and each optimizer state, ascending.
std::map<std::string, std::vector<int>> stages_holding(const Graph& graph,
                                                       const std::vector<int>& stage_of_block);

} // namespace trivium
