#pragma once
// Pipeline stages: the blocks of each stage, and the graph of each pipeline rank.
#include "ir/graph.hpp"

#include <map>
#include <memory>

namespace trivium {

struct StageConfig {
    std::vector<int> stage_of_block;  ///< ascending
    std::vector<int> rank_of_stage;   ///< on the pipeline axis
    std::string axis = pipeline_axis; ///< mesh axis along which ranks send messages

    int rank_of_block(int block) const
    {
        return rank_of_stage[static_cast<std::size_t>(stage_of_block[static_cast<std::size_t>(block)])];
    }
};

/// The graphs of the ranks of a pipeline. What concerns all ranks is found once.
class StageGraphs {
public:
    /// `graph`: sharded; must outlive the StageGraphs. Throws UserError if a microbatch reads what another
    /// stage accumulates.
    StageGraphs(const Graph& graph, StageConfig config);
    StageGraphs(StageGraphs&& other) noexcept;
    ~StageGraphs();
    /// The sharded graph of a pipeline rank. Microbatch region: the ops of the blocks of its stages.
    /// Prologue: the ops on which these depend. Epilogue: the updates of the parameters that the rank holds,
    /// and all ops on which these and the outputs depend. A parameter that several ranks hold is updated
    /// identically on each. A value from another rank's microbatch is sent and received; if the epilogue only
    /// reshards it, it is resharded before it is sent. A message is received in the block and phase of its
    /// first reader, but not in the phase `weights`. All ranks have the outputs, but those that a microbatch
    /// computes only the rank that computes them. An op with OpInfo::contributes keeps the operands that this
    /// rank has and no lower rank has. Throws UserError if a needed value is neither computed nor received.
    Graph of(int rank);
    /// By name, the pipeline ranks that hold each parameter and each optimizer state, ascending.
    std::map<std::string, std::vector<int>> holders() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
