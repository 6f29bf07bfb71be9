#pragma once
// The pipeline of a config: the order of its schedule, and the stages of its ranks.
#include "config/run_config.hpp"
#include "passes/stage.hpp"
#include "schedule/order.hpp"

namespace trivium {

/// The order in which the pipeline ranks train a step of a validated config, whose schedule is not "auto".
/// Throws UserError if its schedule's file does not fit the config.
PipelineOrder training_order(const RunConfig& config);

/// The forward passes of one microbatch on the same stages.
PipelineOrder evaluation_order(PipelineShape shape);

/// By stage: its pipeline rank.
std::vector<int> rank_of_stage(const PipelineShape& shape);

/// Assigns the blocks of the model to stages. Throws UserError if there are more stages than blocks.
StageConfig stages_of(const Graph& graph, const PipelineShape& shape);

} // namespace trivium
