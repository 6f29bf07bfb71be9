#include "plan/cost.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace trivium {

namespace {

/// Which transfers leave a node, if ranks fill the nodes in the order of their numbers.
class Placement {
public:
    Placement(const Mesh& mesh, const Machine& machine) : mesh_(mesh), machine_(machine) {}

    /// Some group along `axis` spans nodes.
    bool crosses(const std::string& axis)
    {
        if (machine_.ranks_per_node == 0 || machine_.node_of(mesh_.ranks() - 1) == 0)
            return false;
        const auto [at, unknown] = crosses_.try_emplace(axis, axis == world_axis);
        if (const int a = mesh_.find(axis); unknown && a >= 0)
            at->second =
                some_differ(static_cast<std::size_t>(a), 0, mesh_.axes[static_cast<std::size_t>(a)].size - 1);
        return at->second;
    }
    /// Some rank at `from` on `axis` is on another node than the one at `to`.
    bool crosses(const std::string& axis, i64 from, i64 to)
    {
        const int a = mesh_.find(axis);
        return crosses(axis) && a >= 0 && some_differ(static_cast<std::size_t>(a), from, to);
    }

private:
    bool some_differ(std::size_t axis, i64 from, i64 to) const
    {
        i64 stride = 1; // between neighbours along the axis
        for (std::size_t a = axis + 1; a < mesh_.axes.size(); ++a)
            stride *= mesh_.axes[a].size;
        const i64 size = mesh_.axes[axis].size;
        for (i64 first = 0; first < mesh_.ranks(); first += stride * size)
            for (i64 r = first; r < first + stride; ++r)
                if (machine_.node_of(r + from * stride) != machine_.node_of(r + to * stride))
                    return true;
        return false;
    }

    const Mesh& mesh_;
    const Machine& machine_;
    std::map<std::string, bool> crosses_;
};

/// Latency: a message per peer and phase. Bandwidth: the bytes that a rank sends.
Seconds seconds_of_move(const Graph& graph, const Op& op, const Machine& machine, Placement& placement)
{
    double messages = 1;
    const std::string& axis = *op.attrs.axis;
    bool between = false;
    if (op.attrs.tag) {
        const i64 own = graph.at[static_cast<std::size_t>(graph.mesh.find(axis))];
        between = placement.crosses(axis, own, op.attrs.to ? *op.attrs.to : *op.attrs.from);
    } else {
        messages = static_cast<double>(graph.mesh.ranks_along(axis) - 1) * (op.attrs.combine ? 2 : 1);
        between = placement.crosses(axis);
    }
    return machine.launch + messages * machine.latency(between) +
           static_cast<double>(bytes_sent(graph, op)) / machine.link_rate(between);
}

} // namespace

Bytes bytes_sent(const Graph& graph, const Op& op)
{
    Bytes in = 0, out = 0;
    for (const ValueId v : op.operands)
        in += graph[v].type.bytes();
    for (const ValueId v : op.results)
        out += graph[v].type.bytes();
    if (op.attrs.to)
        return in;
    if (op.attrs.from)
        return 0;
    const i64 ranks = graph.mesh.ranks_along(*op.attrs.axis);
    const bool both_ways = in == out && op.attrs.combine;
    const Bytes all = (both_ways ? 2 : 1) * std::max(in, out);
    return all - ceil_div(all, ranks); // all * (ranks - 1) / ranks, without overflow
}

std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                  i64 threads)
{
    std::vector<Seconds> by_op(graph.ops.size(), -1);
    std::vector<Seconds> seconds;
    Placement placement(graph.mesh, machine);
    for (const Step& step : schedule.steps) {
        if (step.kind != StepKind::op) {
            seconds.push_back(machine.launch);
            continue;
        }
        Seconds& known = by_op[step.op.index()];
        if (known < 0) {
            const Op& op = graph[step.op];
            if (info(op).communicates) {
                known = seconds_of_move(graph, op, machine, placement);
                seconds.push_back(known);
                continue;
            }
            if (op.operands.empty()) {
                seconds.push_back(machine.launch);
                continue;
            }
            const auto bytes = static_cast<double>(bytes_of(graph, op));
            if (op.attrs.space) // the bytes leave one memory and reach the other
                known = machine.launch + bytes / 2 / machine.host_link_rate();
            else if (result_space(graph, op) == Space::host)
                known = machine.launch + bytes / machine.host_rate();
            else
                known = machine.launch + std::max(flops_of(graph, op) /
                                                      machine.peak(graph[op.operands[0]].type.dtype, threads),
                                                  bytes / machine.bytes_per_second);
        }
        seconds.push_back(known);
    }
    return seconds;
}

std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads)
{
    using Message = std::tuple<std::size_t, i64, i64, i64>; // from, to, tag, microbatch
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
                const Attributes* attrs =
                    step.kind == StepKind::op ? &(*stages[s].graph)[step.op].attrs : nullptr;
                if (attrs && attrs->from) {
                    const auto arrived = sent.find({static_cast<std::size_t>(*attrs->from),
                                                    static_cast<i64>(s), *attrs->tag, step.microbatch});
                    if (arrived == sent.end())
                        break; // try again after the sender has sent
                    end = std::max(begin, arrived->second);
                }
                timelines[s].spans[i] = {begin, end};
                queue_free = end;
                if (attrs && attrs->to)
                    sent[{s, *attrs->to, *attrs->tag, step.microbatch}] = end;
            }
    }
    for (std::size_t s = 0; s < stages.size(); ++s)
        TRV_CHECK(next[s] == seconds[s].size(), "stage ", s, " waits forever at step ", next[s]);
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
