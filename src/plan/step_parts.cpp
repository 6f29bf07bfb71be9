#include "plan/step_parts.hpp"

#include "ir/collectives.hpp"
#include "ir/mesh.hpp"

#include <algorithm>

namespace trivium {

Seconds StepParts::exposed_along(const std::string& axis) const
{
    const auto at = exposed.find(axis);
    return at == exposed.end() ? 0 : at->second;
}

StepParts parts_of_step(const Graph& graph, const Schedule& schedule, const Timeline& timeline,
                        Seconds length)
{
    const bool staged = graph.mesh.find(pipeline_axis) >= 0 && graph.mesh.ranks_along(pipeline_axis) > 1;
    StepParts parts;
    const auto axis_of = [&](std::size_t i) -> std::string {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op || !info(graph[step.op]).communicates)
            return "";
        const std::string& axis = *graph[step.op].attrs->axis;
        return staged && axis == world_axis ? pipeline_axis : axis; // all stages meet
    };
    Seconds end = 0;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        if (schedule.steps[i].queue != queue_compute)
            continue;
        const Span& span = timeline.spans[i];
        if (span.begin > end) {
            std::string axis;
            Seconds last = 0;
            for (const StepId wait : schedule.steps[i].waits)
                if (timeline.spans[wait.index()].end > last) {
                    last = timeline.spans[wait.index()].end;
                    axis = axis_of(wait.index());
                }
            parts.exposed[axis] += span.begin - end;
        }
        parts.computed += std::max(0.0, span.end - std::max(span.begin, end));
        end = std::max(end, span.end);
    }
    // Behind the last op that computes: the transfers that still run, then other stages.
    std::size_t latest = schedule.steps.size();
    for (std::size_t i = 0; i < schedule.steps.size(); ++i)
        if (timeline.spans[i].end > end &&
            (latest == schedule.steps.size() || timeline.spans[i].end > timeline.spans[latest].end))
            latest = i;
    if (latest < schedule.steps.size()) {
        parts.exposed[axis_of(latest)] += timeline.spans[latest].end - end;
        end = timeline.spans[latest].end;
    }
    if (length > end)
        parts.exposed[staged ? pipeline_axis : ""] += length - end;
    std::erase_if(parts.exposed, [](const auto& part) { return part.second <= 0; });
    return parts;
}

} // namespace trivium
