#include "plan/cost.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

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
    double messages = 1;
    if (!has_attr(op.attrs, "channel")) {
        messages = static_cast<double>(graph.mesh.ranks_along(text_attr(op.attrs, "axis")) - 1) * (has_attr(op.attrs, "combine") ? 2 : 1);
    }
    return machine.launch + messages * machine.link_latency + static_cast<double>(bytes_sent(graph, op)) / machine.link_bytes_per_second;
}

} // namespace

Bytes bytes_sent(const Graph& graph, const Op& op)
{
    Bytes in = 0, out = 0;
    for (const ValueId v : op.operands)
        in += graph[v].type.bytes();
    for (const ValueId v : op.results)
        out += graph[v].type.bytes();
    if (has_attr(op.attrs, "to"))
        return in;
    if (has_attr(op.attrs, "from"))
        return 0;
    const i64 ranks = graph.mesh.ranks_along(text_attr(op.attrs, "axis"));
    const bool both_ways = in == out && has_attr(op.attrs, "combine");
    const Bytes all = (both_ways ? 2 : 1) * std::max(in, out);
    return all - ceil_div(all, ranks); // all * (ranks - 1) / ranks, without overflow
}

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
                    std::max(flops_of(graph, op) / (peak(machine, type) * static_cast<double>(machine.workers(threads))),
                             static_cast<double>(bytes_of(graph, op)) / machine.bytes_per_second);
        }
        seconds.push_back(known);
    }
    return seconds;
}

std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads)
{
    using Message = std::tuple<std::size_t, i64, i64, i64>; // from, to, channel, microbatch
    std::map<Message, Seconds> sent;
    std::vector<std::vector<Seconds>> seconds;
    std::vector<Timeline> timelines(stages.size());
    std::vector<std::vector<Seconds>> free_at;
    std::vector<std::size_t> next(stages.size(), 0);
    for (std::size_t s = 0; s < stages.size(); ++s) {
        seconds.push_back(step_seconds(*stages[s].graph, *stages[s].schedule, machine, threads));
        timelines[s].spans.resize(seconds[s].size());
        free_at.emplace_back(stages[s].schedule->queues.size(), 0);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t s = 0; s < stages.size(); ++s)
            for (; next[s] < seconds[s].size(); ++next[s], moved = true) {
                const std::size_t i = next[s];
                const Step& step = stages[s].schedule->steps[i];
                Seconds& queue_free = free_at[s][static_cast<std::size_t>(step.queue)];
                Seconds begin = queue_free;
                for (const StepId wait : step.waits)
                    begin = std::max(begin, timelines[s].spans[wait.index()].end);
                Seconds end = begin + seconds[s][i];
                const Attrs* attrs = step.kind == StepKind::op ? &(*stages[s].graph)[step.op].attrs : nullptr;
                if (attrs && has_attr(*attrs, "from")) {
                    const auto arrived = sent.find({static_cast<std::size_t>(int_attr(*attrs, "from")), static_cast<i64>(s), int_attr(*attrs, "channel"), step.microbatch});
                    if (arrived == sent.end())
                        break; // its turn comes when the sender is there
                    end = std::max(begin, arrived->second);
                }
                timelines[s].spans[i] = {begin, end};
                queue_free = end;
                if (attrs && has_attr(*attrs, "to"))
                    sent[{s, int_attr(*attrs, "to"), int_attr(*attrs, "channel"), step.microbatch}] = end;
            }
    }
    for (std::size_t s = 0; s < stages.size(); ++s)
        TRV_CHECK(next[s] == seconds[s].size(), "stage ", s, " waits for ever at step ", next[s]);
    return timelines;
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
