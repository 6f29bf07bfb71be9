#include "compile/pipeline.hpp"

#include "config/schedules.hpp"
#include "schedule/order_file.hpp"

namespace trivium {

PipelineOrder training_order(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    if (is_schedule_file(p.schedule))
        return parse_csv(p.schedule_rows, p.schedule, p.pipeline, microbatch_count(config));
    const ScheduleKind kind = *schedule_called(p.schedule);
    return named_order(kind, p.pipeline, p.chunks > 0 ? p.chunks : chunks_of(kind).usual,
                       microbatch_count(config));
}

PipelineOrder evaluation_order(PipelineShape shape)
{
    shape.microbatches = 1;
    PipelineOrder order{shape, std::vector<RankOrder>(static_cast<std::size_t>(shape.ranks))};
    for (i64 stage = 0; stage < shape.stages(); ++stage)
        order.ranks[static_cast<std::size_t>(shape.rank_of(stage))].push_back({Work::forward, stage, 0});
    return order;
}

std::vector<int> rank_of_stage(const PipelineShape& shape)
{
    std::vector<int> ranks;
    for (i64 stage = 0; stage < shape.stages(); ++stage)
        ranks.push_back(static_cast<int>(shape.rank_of(stage)));
    return ranks;
}

StageConfig stages_of(const Graph& graph, const PipelineShape& shape)
{
    const std::vector<int> ranks = rank_of_stage(shape);
    return {balance_stages(graph, ranks), ranks};
}

} // namespace trivium
