#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

namespace {

double peak(const Machine& machine, DType type)
{
    switch (type) {
    case DType::f64: return machine.flops_f64;
    case DType::bf16: return machine.flops_bf16;
    default: return machine.flops_f32;
    }
}

} // namespace

std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads)
{
    std::vector<Seconds> by_op(graph.ops.size(), -1);
    std::vector<Seconds> seconds;
    for (const Step& step : schedule.steps) {
        if (step.kind != StepKind::op) {
            seconds.push_back(machine.launch);
            continue;
        }
        Seconds& known = by_op[step.op.index()];
        if (known < 0) {
            const Op& op = graph[step.op];
            const DType type = graph[op.operands[0]].type.dtype;
            known = machine.launch +
                    std::max(flops_of(graph, op) / (peak(machine, type) * static_cast<double>(threads)),
                             static_cast<double>(bytes_of(graph, op)) / machine.bytes_per_second);
        }
        seconds.push_back(known);
    }
    return seconds;
}

Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads)
{
    return play(schedule, step_seconds(graph, schedule, machine, threads));
}

Flops model_flops(const Graph& graph, i64 microbatches)
{
    Flops forward = 0;
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            forward += flops_of(graph, op);
    return 3 * forward * static_cast<Flops>(microbatches);
}

} // namespace trivium
