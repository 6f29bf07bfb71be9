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

/// A message per peer and phase, and the bytes that a rank sends in all.
Seconds seconds_of_move(const Graph& graph, const Op& op, const Machine& machine)
{
    Bytes bytes = 0;
    for (const ValueId v : op.results.empty() ? op.operands : op.results)
        bytes += graph[v].type.bytes();
    for (std::size_t i = 0; i < op.operands.size() && !op.results.empty(); ++i) // the larger side
        bytes = std::max(bytes, graph[op.operands[i]].type.bytes() + (bytes - graph[op.results[i]].type.bytes()));
    const std::string& axis = text_attr(op.attrs, "axis");
    const auto ranks = static_cast<double>(axis == "world" ? graph.mesh.ranks() : graph.mesh.size(axis));
    const bool message = has_attr(op.attrs, "channel");
    const double phases = message ? 1 : op.kind == OpKind::all_reduce ? 2 : 1, share = message ? 1 : (ranks - 1) / ranks;
    return machine.launch + phases * (machine.link_latency * (message ? 1 : ranks - 1) + share * static_cast<double>(bytes) / machine.link_bytes_per_second);
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
            if (info(op).communicates) {
                known = seconds_of_move(graph, op, machine);
                seconds.push_back(known);
                continue;
            }
            if (op.operands.empty()) {
                seconds.push_back(machine.launch);
                continue;
            }
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
