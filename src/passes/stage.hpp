#pragma once
// Pipeline stages: the blocks of each stage, and the part of the graph that a pipeline rank runs.
#include "ir/graph.hpp"

#include <map>

namespace trivium {

struct StageConfig {
    std::vector<int> stage_of_block;  ///< ascending
    std::vector<int> rank_of_stage;   ///< on the pipeline axis
    int rank = 0;                     ///< the pipeline rank whose part to extract
    std::string axis = pipeline_axis; ///< mesh axis along which ranks exchange messages

    int rank_of_block(int block) const
    {
        return rank_of_stage[static_cast<std::size_t>(stage_of_block[static_cast<std::size_t>(block)])];
    }
};

/// Assigns consecutive blocks to each stage, such that the most expensive rank costs as little as possible,
/// and then the most expensive stage (FLOPs of a forward pass, plus a little for each byte). `rank_of_stage`:
/// of each stage. Throws UserError if there are fewer blocks than stages.
std::vector<int> balance_stages(const Graph& graph, const std::vector<int>& rank_of_stage);

/// The part of a sharded graph that pipeline rank `config.rank` runs; sharded graph in and out. Microbatch
/// region: the ops of the blocks of its stages. Prologue: the ops that those need. Epilogue: the updates of
/// the parameters that it holds, and everything that these and the outputs need. A parameter that several
/// ranks hold is updated identically on each. A value from another rank's microbatch is sent and received; if
/// it is only resharded, it is resharded before it is sent. A message is received in the block and phase of
/// its first reader, but not later than in the backward phase. An op that contributes leaves out the operands
/// that an earlier rank holds.
Graph extract_stages(const Graph& graph, const StageConfig& config);

/// The pipeline ranks that hold each parameter and each optimizer state, ascending.
std::map<std::string, std::vector<int>> ranks_holding(const Graph& graph, const StageConfig& config);

} // namespace trivium
