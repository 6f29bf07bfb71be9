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

    /// Members of a group along `axis` that are on one node, where they are fewest.
    i64 members_of_node(const std::string& axis)
    {
        const i64 size = mesh_.ranks_along(axis);
        if (machine_.ranks_per_node == 0 || machine_.node_of(mesh_.ranks() - 1) == 0)
            return size;
        const auto [at, unknown] = members_.try_emplace(axis, size);
        if (unknown && axis == world_axis)
            at->second = machine_.ranks_per_node;
        else if (unknown)
            for (const i64 first : first_members(axis))
                for (i64 i = 0, run = 0; i < size; ++i) {
                    const auto node = [&](i64 member) {
                        return machine_.node_of(first + member * stride(axis));
                    };
                    run = i > 0 && node(i) == node(i - 1) ? run + 1 : 1;
                    if (i + 1 == size || node(i + 1) != node(i))
                        at->second = std::min(at->second, run);
                }
        return at->second;
    }
    /// Some rank at `from` on `axis` is on another node than the one at `to`.
    bool crosses(const std::string& axis, i64 from, i64 to)
    {
        if (machine_.ranks_per_node == 0 || mesh_.find(axis) < 0)
            return false;
        const std::vector<i64> firsts = first_members(axis);
        return std::any_of(firsts.begin(), firsts.end(), [&](i64 first) {
            return machine_.node_of(first + from * stride(axis)) !=
                   machine_.node_of(first + to * stride(axis));
        });
    }

private:
    /// Between neighbours along the axis.
    i64 stride(const std::string& axis) const
    {
        i64 stride = 1;
        for (std::size_t a = static_cast<std::size_t>(mesh_.find(axis)) + 1; a < mesh_.axes.size(); ++a)
            stride *= mesh_.axes[a].size;
        return stride;
    }
    /// The first rank of each group along the axis.
    std::vector<i64> first_members(const std::string& axis) const
    {
        std::vector<i64> firsts;
        const i64 step = stride(axis), size = mesh_.size(axis);
        for (i64 first = 0; first < mesh_.ranks(); first += step * size)
            for (i64 r = first; r < first + step; ++r)
                firsts.push_back(r);
        return firsts;
    }

    const Mesh& mesh_;
    const Machine& machine_;
    std::map<std::string, i64> members_;
};

/// Of a collective: on devices NCCL's ring, where a group uses the network cards of all its members on a
/// node; on hosts a message to each peer.
TransferCost collective_cost(const std::string& axis, const Mesh& mesh, const Machine& machine,
                             Placement& placement)
{
    const i64 ranks = mesh.ranks_along(axis), here = std::max<i64>(1, placement.members_of_node(axis));
    const i64 nodes = ceil_div(ranks, here);
    const i64 near = machine.is_device ? ranks - nodes : std::min(here, ranks) - 1;
    const i64 far = machine.is_device ? nodes - 1 : ranks - 1 - near;
    const double rate = machine.link_rate(false);
    return {machine.launch + machine.collective_latency,
            static_cast<double>(near) * machine.latency(false) +
                static_cast<double>(far) * machine.latency(true),
            nodes == 1          ? rate
            : machine.is_device ? std::min(rate, machine.link_rate(true) * static_cast<double>(here))
                                : machine.link_rate(true)};
}

Seconds seconds_of_move(const Graph& graph, const Op& op, const Machine& machine, Placement& placement)
{
    const std::string& axis = *op.attrs.axis;
    const auto bytes = static_cast<double>(bytes_sent(graph, op));
    if (op.attrs.tag) {
        const i64 own = graph.at[static_cast<std::size_t>(graph.mesh.find(axis))];
        const bool between = placement.crosses(axis, own, op.attrs.to ? *op.attrs.to : *op.attrs.from);
        return machine.launch + machine.latency(between) + bytes / machine.link_rate(between);
    }
    const TransferCost cost = collective_cost(axis, graph.mesh, machine, placement);
    return cost.start + (op.attrs.combine ? 2 : 1) * cost.messages + bytes / cost.bytes_per_second;
}

Seconds seconds_of_compute(const Graph& graph, const Op& op, const Machine& machine, i64 threads)
{
    if (op.operands.empty())
        return machine.launch;
    const auto bytes = static_cast<double>(bytes_of(graph, op));
    if (op.attrs.space) // the bytes leave one memory and reach the other
        return machine.launch + bytes / 2 / machine.host_link_rate();
    if (result_space(graph, op) == Space::host)
        return machine.launch + bytes / machine.host_rate();
    const ScratchKind kind = info(op).scratch; // tells products and attention from the others
    const double efficiency = kind == ScratchKind::product     ? machine.product_efficiency
                              : kind == ScratchKind::attention ? machine.attention_efficiency
                                                               : 1;
    return machine.launch +
           std::max(flops_of(graph, op) /
                        (efficiency * machine.peak(graph[op.operands[0]].type.dtype, threads)),
                    bytes / (machine.memory_efficiency * machine.bytes_per_second));
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

std::vector<Seconds> op_seconds(const Graph& graph, const Machine& machine, i64 threads)
{
    Placement placement(graph.mesh, machine);
    std::vector<Seconds> seconds;
    for (const Op& op : graph.ops)
        seconds.push_back(info(op).communicates ? seconds_of_move(graph, op, machine, placement)
                                                : seconds_of_compute(graph, op, machine, threads));
    return seconds;
}

TransferCost transfer_cost(const std::string& axis, const Mesh& mesh, const Machine& machine)
{
    Placement placement(mesh, machine);
    return collective_cost(axis, mesh, machine, placement);
}

std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                  i64 threads)
{
    const std::vector<Seconds> by_op = op_seconds(graph, machine, threads);
    std::vector<Seconds> seconds;
    for (const Step& step : schedule.steps)
        seconds.push_back(step.kind == StepKind::op ? by_op[step.op.index()] : machine.launch);
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
