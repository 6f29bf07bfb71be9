#include "compile/pipeline.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "config/schedules.hpp"
#include "passes/pipeline/balance_stages.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"
#include "schedule/order_file.hpp"
#include "schedule/schedule.hpp"

#include <algorithm>

namespace trivium {

namespace {

std::string blocks_of(const ModelConfig& model)
{
    return model.is_program()
               ? str("the program has ", counted(model.blocks(), "block"), " (`@ forward block N`)")
               : str("the model has ", model.blocks(), " blocks: ", counted(model.layers, "layer"),
                     ", one block before and one after them");
}

/// There may be more stages than the model has blocks.
void require_blocks(const RunConfig& config, ScheduleKind kind, i64 chunks)
{
    const ParallelConfig& p = config.parallel;
    const i64 blocks = config.model.blocks();
    if (p.pipeline * chunks <= blocks)
        return;
    if (chunks == 1)
        throw UserError({"parallel.pipeline",
                         str(counted(p.pipeline, "stage"), " for a model of ", counted(blocks, "block")),
                         blocks_of(config.model), str("set parallel.pipeline to ", blocks, " or less")});
    const i64 fit = blocks / p.pipeline;
    const ScheduleKind simple = kind == ScheduleKind::interleaved     ? ScheduleKind::one_f_one_b
                                : kind == ScheduleKind::breadth_first ? ScheduleKind::gpipe
                                                                      : ScheduleKind::zb_h1;
    throw UserError(
        {p.chunks > 0 ? "parallel.chunks" : "parallel.schedule",
         str("\"", p.schedule, "\" needs ", p.pipeline * chunks, " stages, ", chunks, " on each of ",
             counted(p.pipeline, "pipeline rank")),
         blocks_of(config.model),
         fit >= std::max<i64>(2, chunks_of(kind).least)
             ? str("set parallel.chunks to ", fit)
             : str("set parallel.schedule to \"", name_of(simple), "\"",
                   p.chunks > 0 ? " and remove parallel.chunks" : "",
                   blocks / chunks > 1 ? str(", or parallel.pipeline to ", blocks / chunks) : "")});
}

} // namespace

PipelineOrder training_order(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    require_few_steps(microbatch_count(config), config.model.blocks()); // before a task is made for each
    if (is_schedule_file(p.schedule))
        return parse_csv(p.schedule_rows, p.schedule, p.pipeline, microbatch_count(config));
    const ScheduleKind kind = *schedule_called(p.schedule);
    const i64 chunks = stages_per_rank(kind, p.chunks);
    require_blocks(config, kind, chunks);
    PipelineOrder order = named_order(kind, p.pipeline, chunks, microbatch_count(config));
    if constexpr (contracts_on)
        TRV_CHECK(!find_fault(order), p.schedule, " cannot run");
    return order;
}

std::vector<PipelineOrder> ramp_orders(const RunConfig& config)
{
    std::vector<i64> counts{microbatch_count(config)};
    std::vector<PipelineOrder> orders;
    RunConfig smaller = config;
    smaller.train.micro_batch = micro_batch(config);
    for (const BatchRamp::Stage& stage : config.train.batch_ramp.stages) {
        smaller.train.global_batch = stage.batch;
        const i64 count = microbatch_count(smaller);
        if (std::find(counts.begin(), counts.end(), count) != counts.end())
            continue;
        counts.push_back(count);
        orders.push_back(training_order(smaller));
    }
    return orders;
}

PipelineOrder evaluation_order(PipelineShape shape)
{
    shape.microbatches = 1;
    PipelineOrder order{shape, std::vector<RankOrder>(static_cast<std::size_t>(shape.ranks))};
    for (i64 stage = 0; stage < shape.stages(); ++stage)
        order.ranks[static_cast<std::size_t>(shape.rank_of(stage))].push_back({Work::forward, stage, 0});
    return order;
}

PipelineOrder forward_order(const RunConfig& config)
{
    require_blocks(config, ScheduleKind::gpipe, 1);
    return evaluation_order({config.parallel.pipeline, 1});
}

StageConfig stages_of(const Graph& graph, const PipelineShape& shape, const std::vector<i64>& layers)
{
    std::vector<int> ranks; // by stage
    for (i64 stage = 0; stage < shape.stages(); ++stage)
        ranks.push_back(static_cast<int>(shape.rank_of(stage)));
    if (static_cast<i64>(layers.size()) != shape.stages())
        return {balance_stages(graph, ranks), ranks};
    std::vector<int> stages{0}; // of the embedding
    for (std::size_t s = 0; s < layers.size(); ++s)
        stages.insert(stages.end(), static_cast<std::size_t>(layers[s]), static_cast<int>(s));
    stages.push_back(static_cast<int>(layers.size()) - 1); // the head
    return {std::move(stages), ranks};
}

} // namespace trivium
