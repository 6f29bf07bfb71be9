#pragma once
// The pipeline of a config: the order of its schedule, and the stages of its ranks.
#include "config/run_config.hpp"
#include "passes/pipeline/stage.hpp"
#include "schedule/order.hpp"

namespace trivium {

/// The order of a training step of a validated config, whose schedule is not "auto". Throws UserError if the
/// schedule's file does not fit the config, or for more stages than blocks or too many Steps.
PipelineOrder training_order(const RunConfig& config);

/// With train.batch_ramp: the orders of the steps with fewer microbatches than a step of train.global_batch,
/// each number once. Errors as training_order().
std::vector<PipelineOrder> ramp_orders(const RunConfig& config);

/// The forward passes of one microbatch on the stages of `shape`.
PipelineOrder evaluation_order(PipelineShape shape);
/// The same with one stage on each pipeline rank of a validated config. Throws UserError for more stages than
/// blocks.
PipelineOrder forward_order(const RunConfig& config);

/// Assigns the blocks of the model to stages: by `layers` (parallel.stage_layers) if it has as many numbers
/// as there are stages, otherwise balanced. Throws UserError if there are more stages than blocks.
StageConfig stages_of(const Graph& graph, const PipelineShape& shape, const std::vector<i64>& layers = {});

} // namespace trivium
