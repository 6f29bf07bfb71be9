#include "plan/cost.hpp"

#include "base/check.hpp"
#include "ir/exchange.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace trivium {

namespace {

/// Which transfers leave a node, if ranks fill the nodes in the order of their numbers.
class GroupPlacement {
public:
    GroupPlacement(const Mesh& mesh, const Machine& machine) : mesh_(mesh), machine_(machine) {}

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
            for (const std::vector<i64> steps = steps_along(axis); const i64 first : first_members(axis))
                for (i64 i = 0, run = 0; i < size; ++i) {
                    const auto node = [&](i64 member) {
                        return machine_.node_of(first + steps[static_cast<std::size_t>(member)]);
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
        const std::vector<i64> firsts = first_members(axis), steps = steps_along(axis);
        return std::any_of(firsts.begin(), firsts.end(), [&](i64 first) {
            return machine_.node_of(first + steps[static_cast<std::size_t>(from)]) !=
                   machine_.node_of(first + steps[static_cast<std::size_t>(to)]);
        });
    }

private:
    /// From the first member of a group along `axis`, which may be joint, to each member.
    std::vector<i64> steps_along(const std::string& axis) const
    {
        return mesh_.group(Coordinates(mesh_.axes.size(), 0), {axis});
    }
    /// The first rank of each group along the axis.
    std::vector<i64> first_members(const std::string& axis) const
    {
        if (axis.find(':') != std::string::npos) { // a part of an axis
            std::vector<i64> first;
            for (i64 rank = 0; rank < mesh_.ranks(); ++rank)
                if (mesh_.group(mesh_.coordinates(rank), {axis}).front() == rank)
                    first.push_back(rank);
            return first;
        }
        std::vector<std::string> others;
        for (const MeshAxis& other : mesh_.axes)
            if (!joins(axis, other.name))
                others.push_back(other.name);
        return mesh_.group(Coordinates(mesh_.axes.size(), 0), others);
    }

    const Mesh& mesh_;
    const Machine& machine_;
    std::map<std::string, i64> members_;
};

/// Of a collective: on devices NCCL's ring, where a group uses the network cards of all its members on a
/// node; on hosts a message to each peer.
TransferCost collective_cost(const std::string& axis, const Mesh& mesh, const Machine& machine,
                             GroupPlacement& placement)
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
                                : machine.link_rate(true),
            nodes > 1};
}

/// The links of a rank that collectives share.
enum class Link { none, within_node, between_nodes };

/// The duration of an op: `alone`, of which it occupies `link` for `moving`, and for `copying` a core that
/// otherwise computes.
struct OpCost {
    Seconds alone = 0, moving = 0;
    Link link = Link::none;
    Seconds copying = 0;
};

/// Whether ranks first send each other contributions, then results.
bool goes_both_ways(const Op& op) { return op.attrs.combine && !op.attrs.dim; }

/// The ranks along the axis, in the order of their numbers in the group.
std::vector<i64> group_of(const Graph& graph, const std::string& axis)
{
    if (graph.at.empty())
        return {0};
    return graph.mesh.group(graph.at, axes_of_group(graph.mesh, axis));
}

/// Of `bytes` to or from ranks of the same node, of a transfer of `all` bytes.
Seconds copying(const Machine& machine, double bytes, Bytes all)
{
    if (machine.is_device)
        return 0;
    return bytes / machine.copy_bytes_per_second +
           (all > machine.cache ? static_cast<double>(all) / machine.bytes_per_second : 0);
}

/// Of an exchange of boxes: a message from or to each peer that has a part, and the bytes of the direction
/// that has more.
OpCost cost_of_exchange(const Graph& graph, const Op& op, const Machine& machine)
{
    const BoxExchangeShape shape = exchange_of(graph, op);
    const int own = exchange_rank(graph, op);
    const std::vector<i64> members = group_of(graph, *op.attrs.axis);
    const i64 node = machine.node_of(members[static_cast<std::size_t>(own)]);
    struct Direction {
        i64 messages[2] = {}; ///< within the node, and between nodes
        Bytes bytes[2] = {};
    };
    Direction sent, received;
    const auto note = [&](Direction& direction) {
        return [&](std::size_t peer, const Box& part, const Box&) {
            const bool between = machine.node_of(members[peer]) != node;
            ++direction.messages[between];
            direction.bytes[between] += element_count(part.shape) * size_of(shape.type);
        };
    };
    for_each_part(shape, own, note(sent), note(received));
    OpCost cost{machine.launch + machine.collective_latency, 0, Link::within_node};
    for (const bool between : {false, true}) {
        const Bytes bytes = std::max(sent.bytes[between], received.bytes[between]);
        cost.alone += static_cast<double>(std::max(sent.messages[between], received.messages[between])) *
                      machine.latency(between);
        cost.moving += static_cast<double>(bytes) / machine.link_rate(between);
        if (between && bytes > 0)
            cost.link = Link::between_nodes;
    }
    cost.alone += cost.moving;
    if (cost.link == Link::within_node)
        cost.copying = copying(machine, static_cast<double>(sent.bytes[0]), bytes_of(graph, op));
    return cost;
}

OpCost cost_of_move(const Graph& graph, const Op& op, const Machine& machine, GroupPlacement& placement)
{
    if (info(op).exchanges)
        return cost_of_exchange(graph, op, machine);
    const std::string& axis = *op.attrs.axis;
    const auto bytes = static_cast<double>(bytes_sent(graph, op));
    if (op.attrs.tag) {
        const i64 own = graph.at[static_cast<std::size_t>(graph.mesh.find(axis))];
        const bool between = placement.crosses(axis, own, op.attrs.to ? *op.attrs.to : *op.attrs.from);
        const Bytes all = bytes_of(graph, op);
        return {machine.launch + machine.latency(between) + bytes / machine.link_rate(between), 0, Link::none,
                between ? 0 : copying(machine, static_cast<double>(all), all)};
    }
    const TransferCost cost = collective_cost(axis, graph.mesh, machine, placement);
    const Seconds moving = bytes / cost.bytes_per_second;
    return {cost.start + (goes_both_ways(op) ? 2 : 1) * cost.messages + moving, moving,
            cost.between_nodes ? Link::between_nodes : Link::within_node,
            cost.between_nodes ? 0 : copying(machine, bytes, bytes_of(graph, op))};
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
    if (info(op).exchanges)
        return box_exchange_sent(exchange_of(graph, op), exchange_rank(graph, op));
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
    const Bytes all = (goes_both_ways(op) ? 2 : 1) * std::max(in, out);
    return all - ceil_div(all, ranks); // all * (ranks - 1) / ranks, without overflow
}

namespace {

std::vector<OpCost> op_costs(const Graph& graph, const Machine& machine, i64 threads)
{
    GroupPlacement placement(graph.mesh, machine);
    std::vector<OpCost> costs;
    for (const Op& op : graph.ops)
        costs.push_back(info(op).communicates
                            ? cost_of_move(graph, op, machine, placement)
                            : OpCost{seconds_of_compute(graph, op, machine, threads), 0, Link::none});
    return costs;
}

} // namespace

WorkPrices work_prices(const Machine& machine, i64 ranks)
{
    const double link = machine.link_rate(machine.node_of(ranks - 1) > 0) / machine.product_efficiency;
    return {link / machine.flops_f32, link / machine.flops_bf16, link / machine.flops_f64};
}

std::vector<Seconds> op_seconds(const Graph& graph, const Machine& machine, i64 threads)
{
    std::vector<Seconds> seconds;
    for (const OpCost& cost : op_costs(graph, machine, threads))
        seconds.push_back(cost.alone);
    return seconds;
}

TransferCost transfer_cost(const std::string& axis, const Mesh& mesh, const Machine& machine)
{
    GroupPlacement placement(mesh, machine);
    return collective_cost(axis, mesh, machine, placement);
}

namespace {

/// A stage on the clock of simulate().
class StageClock {
public:
    /// What the stages know of each other.
    struct Shared {
        using Message = std::tuple<std::size_t, std::size_t, i64, i64>; ///< from, to, tag and microbatch
        std::map<Message, Seconds> sent;                                ///< when
        /// By axis and number: of collectives of all stages, when each stage begins it.
        std::map<std::pair<std::string, std::size_t>, std::map<std::size_t, Seconds>> meetings;
        std::size_t stages = 1;
    };

    StageClock(const StageProgram& program, std::size_t stage, const Machine& machine, i64 threads,
               const Timeline* measured = nullptr, Seconds begin = 0)
        : program_(program), stage_(stage), launch_(machine.launch), measured_(measured),
          costs_(op_costs(*program.graph, machine, threads)), known_(program.schedule->steps.size(), false),
          queues_(program.schedule->queues.size()), next_(queues_.size(), 0), free_at_(queues_.size(), begin)
    {
        timeline_.spans.resize(known_.size());
        std::size_t computed = known_.size();
        for (std::size_t i = 0; i < known_.size(); ++i) {
            queues_[queue_of(i)].push_back(i);
            if (!machine.is_device)
                follows_.push_back(computed);
            if (queue_of(i) == queue_compute)
                computed = i;
        }
    }

    /// Runs Steps in the order of time as far as waits and messages allow. Without `shared`, a message
    /// arrives when it is asked for. Returns whether a Step has run.
    bool advance(Shared* shared)
    {
        bool moved = false;
        for (;;) {
            std::size_t first = known_.size();
            Seconds first_begin = 0;
            for (std::size_t q = 0; q < queues_.size(); ++q) {
                if (next_[q] == queues_[q].size())
                    continue;
                const std::size_t i = queues_[q][next_[q]];
                const std::optional<Seconds> begin = begin_of(i, shared);
                if (begin && (first == known_.size() || *begin < first_begin ||
                              (*begin == first_begin && i < first))) {
                    first = i;
                    first_begin = *begin;
                }
            }
            if (first == known_.size())
                return moved;
            run(first, first_begin, shared);
            moved = true;
        }
    }
    /// The first Step that waits forever; the number of Steps if all have run.
    std::size_t stuck() const
    {
        return static_cast<std::size_t>(std::find(known_.begin(), known_.end(), false) - known_.begin());
    }
    Timeline take() { return std::move(timeline_); }

private:
    /// A transfer that occupies a link.
    struct Moving {
        std::size_t step = 0;
        Link link = Link::none;
    };

    std::size_t queue_of(std::size_t i) const
    {
        return static_cast<std::size_t>(program_.schedule->steps[i].queue);
    }
    const Op* op_of(std::size_t i) const
    {
        const Step& step = program_.schedule->steps[i];
        return step.kind == StepKind::op ? &(*program_.graph)[step.op] : nullptr;
    }
    Shared::Message message(std::size_t i) const
    {
        const Attributes& attrs = op_of(i)->attrs;
        const i64 microbatch = program_.schedule->steps[i].microbatch;
        return attrs.to ? Shared::Message(stage_, *attrs.to, *attrs.tag, microbatch)
                        : Shared::Message(*attrs.from, stage_, *attrs.tag, microbatch);
    }

    /// Nothing if a Step for which it waits has not run, its message is not sent, or another stage has not
    /// come to their collective, to which this one then has come.
    std::optional<Seconds> begin_of(std::size_t i, Shared* shared) const
    {
        Seconds begin = free_at_[queue_of(i)];
        for (const StepId wait : program_.schedule->steps[i].waits) {
            if (!known_[wait.index()])
                return {};
            begin = std::max(begin, timeline_.spans[wait.index()].end);
        }
        if (!follows_.empty() && follows_[i] < known_.size()) {
            if (!known_[follows_[i]])
                return {};
            begin = std::max(begin, timeline_.spans[follows_[i]].end);
            const Span& now = timeline_.spans[last_computed_];
            if (queue_of(i) != queue_compute && now.begin < begin && begin < now.end)
                begin = now.end;
        }
        const Op* op = op_of(i);
        if (!shared || !op || !info(*op).communicates)
            return begin;
        if (op->attrs.from && !shared->sent.contains(message(i)))
            return {};
        if (!op->attrs.tag && (*op->attrs.axis == world_axis || joins(*op->attrs.axis, pipeline_axis))) {
            auto& begins = shared->meetings[{*op->attrs.axis, next_[queue_of(i)]}];
            begins.try_emplace(stage_, begin);
            if (begins.size() < shared->stages)
                return {};
            for (const auto& [stage, other] : begins)
                begin = std::max(begin, other);
        }
        return begin;
    }

    void run(std::size_t i, Seconds begin, Shared* shared)
    {
        const Op* op = op_of(i);
        const OpCost cost =
            op ? costs_[program_.schedule->steps[i].op.index()] : OpCost{launch_, 0, Link::none};
        Seconds end = begin + cost.alone;
        if (measured_ && !(op && info(*op).communicates))
            end = begin + measured_->spans[i].end - measured_->spans[i].begin;
        if (shared && op && op->attrs.from)
            end = std::max(begin, shared->sent.at(message(i)));
        // Transfers that share a link have it in turns: each takes longer by what the other moves meanwhile.
        std::erase_if(moving_, [&](const Moving& m) { return timeline_.spans[m.step].end <= begin; });
        if (cost.moving > 0) {
            for (const Moving& other : moving_)
                if (other.link == cost.link) {
                    Seconds& other_end = timeline_.spans[other.step].end;
                    const Seconds both = std::min(cost.moving, other_end - begin);
                    other_end += both;
                    free_at_[queue_of(other.step)] = other_end;
                    end += both;
                }
            moving_.push_back({i, cost.link});
        }
        timeline_.spans[i] = {begin, end};
        known_[i] = true;
        if (queue_of(i) == queue_compute)
            last_computed_ = i;
        ++next_[queue_of(i)];
        free_at_[queue_of(i)] = end;
        if (cost.copying > 0)
            free_at_[queue_compute] = std::max(free_at_[queue_compute], begin) + cost.copying;
        if (shared && op && op->attrs.to)
            shared->sent[message(i)] = end;
    }

    const StageProgram& program_;
    std::size_t stage_;
    Seconds launch_;
    const Timeline* measured_;
    std::vector<OpCost> costs_; ///< by op
    std::vector<bool> known_;   ///< by Step: it has run
    /// On hosts the thread that computes starts the transfers, too, between two Steps. By Step: the last one
    /// of the list that computes before it; empty on devices.
    std::vector<std::size_t> follows_;
    std::size_t last_computed_ = 0;
    std::vector<std::vector<std::size_t>> queues_;
    std::vector<std::size_t> next_; ///< by queue
    std::vector<Seconds> free_at_;  ///< by queue
    std::vector<Moving> moving_;
    Timeline timeline_;
};

} // namespace

std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads,
                               const std::vector<Seconds>& begins)
{
    std::vector<StageClock> clocks;
    for (std::size_t s = 0; s < stages.size(); ++s)
        clocks.emplace_back(stages[s], s, machine, threads, nullptr, begins.empty() ? 0 : begins[s]);
    StageClock::Shared shared;
    shared.stages = stages.size();
    for (bool moved = true; moved;) {
        moved = false;
        for (StageClock& clock : clocks)
            moved = clock.advance(&shared) || moved;
    }
    std::vector<Timeline> timelines;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        TRV_CHECK(clocks[s].stuck() == stages[s].schedule->steps.size(), "stage ", s,
                  " waits forever at step ", clocks[s].stuck());
        timelines.push_back(clocks[s].take());
    }
    return timelines;
}

Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads,
                  const Timeline* measured)
{
    const StageProgram program{&graph, &schedule};
    StageClock clock(program, 0, machine, threads, measured);
    clock.advance(nullptr);
    TRV_CHECK(clock.stuck() == schedule.steps.size(), "waits forever at step ", clock.stuck());
    return clock.take();
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
