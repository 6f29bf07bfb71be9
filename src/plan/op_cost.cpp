#include "plan/op_cost.hpp"

#include "ir/exchange.hpp"
#include "plan/op_times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

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

/// A protocol of NCCL: how long a collective takes to start, and a message within a node and between nodes,
/// relative to the protocol of least latency, whose times are the keys of Machine; and the part of the
/// bandwidth that it reaches. NCCL's own model, by which it chooses (src/graph/tuning.cc).
struct Protocol {
    double start, near, far, rate;
};
constexpr Protocol low_latency{1, 1, 1, 0.25}, low_latency_128{2.1, 3.2, 1.5, 0.92}, simple{1.3, 5.7, 3.6, 1};
constexpr double tree_rate = 0.9; ///< bandwidth of a tree of nodes, relative to a ring

Seconds duration(const TransferCost& cost, double bytes, int ways)
{
    return cost.start + ways * cost.messages + bytes / cost.bytes_per_second;
}

/// Of a collective that sends `bytes` in one direction (`ways` = 1) or first contributions, then results (2).
/// On devices the fastest of NCCL's algorithms and protocols; a group uses the network cards of all its
/// members on a node. On hosts a message to each peer.
TransferCost collective_cost(const std::string& axis, double bytes, int ways, const Mesh& mesh,
                             const Machine& machine, GroupPlacement& placement)
{
    const i64 ranks = mesh.ranks_along(axis), here = std::max<i64>(1, placement.members_of_node(axis));
    const i64 nodes = ceil_div(ranks, here);
    const double rate = machine.link_rate(false);
    const bool between = nodes > 1;
    if (!machine.is_device) {
        const i64 near = std::min(here, ranks) - 1;
        return {machine.launch + machine.collective_latency,
                static_cast<double>(near) * machine.latency(false) +
                    static_cast<double>(ranks - 1 - near) * machine.latency(true),
                between ? machine.link_rate(true) : rate, between, 0};
    }
    // Most of its hops are within nodes, if some are.
    const double share = here > 1 ? machine.link_share : machine.node_link_share;
    const double shared =
        between ? std::min(rate, machine.link_rate(true) * static_cast<double>(here)) : rate;
    TransferCost best;
    const auto consider = [&](const Protocol& p, i64 near, i64 far, double part) {
        const TransferCost cost{machine.launch + p.start * machine.collective_latency,
                                static_cast<double>(near) * p.near * machine.latency(false) +
                                    static_cast<double>(far) * p.far * machine.latency(true),
                                part * p.rate * shared, between, share};
        if (best.bytes_per_second == 0 || duration(cost, bytes, ways) < duration(best, bytes, ways))
            best = cost;
    };
    for (const Protocol& p : {simple, low_latency_128, low_latency}) {
        consider(p, ranks - nodes, nodes - 1, 1);
        if (ways == 2 && between)
            consider(p, here - 1, std::bit_width(static_cast<std::uint64_t>(nodes - 1)), tree_rate);
    }
    return best;
}

/// Whether ranks first send each other contributions, then results.
bool goes_both_ways(const Op& op) { return op.attrs->combine && !op.attrs->dim; }

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
    const std::vector<i64> members = group_of(graph, *op.attrs->axis);
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
    if (machine.is_device)
        cost.share = cost.link == Link::between_nodes ? machine.node_link_share : machine.link_share;
    if (cost.link == Link::within_node)
        cost.copying = copying(machine, static_cast<double>(sent.bytes[0]), bytes_of(graph, op));
    return cost;
}

Seconds memory_seconds(const Machine& machine, double bytes)
{
    return bytes / (machine.memory_efficiency * machine.bytes_per_second);
}

/// How many rows come to the fullest rank, relative to what is expected of equally loaded experts: what the
/// machine says, as far as the buffer has places. 1 for ops that do not depend on it.
double load_of(const Graph& graph, const Op& op, const Machine& machine)
{
    const auto* expected = op.attrs->lists.find(Attr::expected);
    if (!expected || expected->front() == 0)
        return 1;
    i64 places = graph[op.operands[0]].type.shape[1];
    if (op.kind == OpKind::exchange_rows)
        places = std::max(places, graph[op.results[0]].type.shape[1]);
    return std::clamp(static_cast<double>(places) / static_cast<double>(expected->front()), 1.0,
                      std::max(1.0, machine.expert_load));
}

/// An exchange of rows sends its peers messages of the same size, one for each expert; those within the node
/// and those between nodes travel at the same time. A device's host first waits for the counts, and launches
/// each message. What lies behind the last row is set to 0.
OpCost cost_of_rows(const Graph& graph, const Op& op, const Machine& machine, GroupPlacement& placement)
{
    const std::string& axis = *op.attrs->axis;
    const i64 members = graph.mesh.ranks_along(axis),
              near = std::max<i64>(1, placement.members_of_node(axis)) - 1, far = members - 1 - near;
    const double bytes = load_of(graph, op, machine) * static_cast<double>(bytes_sent(graph, op));
    const double each = bytes / static_cast<double>(std::max<i64>(members - 1, 1)),
                 inside = static_cast<double>(near) * each, outside = static_cast<double>(far) * each;
    const auto messages =
                   static_cast<double>(std::max<i64>(graph[op.operands[1]].type.shape[1] / members, 1)),
               launches = machine.is_device ? 1 + static_cast<double>(members - 1) * messages : 1;
    OpCost cost{.alone = launches * machine.launch + machine.collective_latency,
                .moving = std::max(inside / machine.link_rate(false), outside / machine.link_rate(true)),
                .link = far > 0 ? Link::between_nodes : Link::within_node};
    const TensorType& rows = graph[op.results[0]].type;
    const i64 behind = std::max<i64>(0, rows.shape[1] - expected_rows(graph, op));
    cost.alone += messages * (static_cast<double>(near) * machine.latency(false) +
                              static_cast<double>(far) * machine.latency(true)) +
                  cost.moving +
                  memory_seconds(machine, static_cast<double>(rows.shape[0] * behind * rows.shape[2] *
                                                              size_of(rows.dtype)));
    if (near > 0)
        cost.copying = copying(machine, inside, static_cast<Bytes>(2 * bytes));
    if (machine.is_device)
        cost.share = near > 0 ? machine.link_share : machine.node_link_share;
    return cost;
}

OpCost cost_of_move(const Graph& graph, const Op& op, const Machine& machine, const OpTimes& measured,
                    GroupPlacement& placement)
{
    if (info(op).exchanges)
        return cost_of_exchange(graph, op, machine);
    if (op.kind == OpKind::exchange_rows)
        return cost_of_rows(graph, op, machine, placement);
    const std::string& axis = *op.attrs->axis;
    const auto bytes = static_cast<double>(bytes_sent(graph, op));
    if (op.attrs->tag) {
        const i64 own = graph.at[static_cast<std::size_t>(graph.mesh.find(axis))];
        const bool between = placement.crosses(axis, own, op.attrs->to ? *op.attrs->to : *op.attrs->from);
        const Bytes all = bytes_of(graph, op);
        return {machine.launch + machine.latency(between) + bytes / machine.link_rate(between), 0, Link::none,
                between ? 0 : copying(machine, static_cast<double>(all), all)};
    }
    const int ways = goes_both_ways(op) ? 2 : 1;
    const TransferCost cost = collective_cost(axis, bytes, ways, graph.mesh, machine, placement);
    const bool between = cost.between_nodes;
    if (!machine.is_device && !between) // the thread that computes also moves the bytes
        if (const std::optional<Seconds> seconds = measured.seconds(graph, op)) {
            const auto messages = static_cast<double>(ways * (graph.mesh.ranks_along(axis) - 1));
            const Seconds alone =
                messages * machine.delay_latency + std::max(*seconds, bytes * machine.delay_per_byte);
            return {alone, std::min(bytes / cost.bytes_per_second, alone), Link::within_node, *seconds};
        }
    const bool overlaps = axis == tensor_axis && op.region == Region::microbatch;
    const Seconds moving = bytes / cost.bytes_per_second * (overlaps ? 1 - machine.tensor_overlap : 1);
    return {duration(cost, 0, ways) + moving, moving, between ? Link::between_nodes : Link::within_node,
            between ? 0 : copying(machine, bytes, bytes_of(graph, op)), cost.share};
}

/// The part of a value of the op that holds rows: buffers of rows have places for more than a grouped product
/// expects. 1 for other values and ops.
double used_part(const Graph& graph, const Op& op, ValueId v, double load)
{
    const auto* expected = op.attrs->lists.find(Attr::expected);
    if (!expected)
        return 1;
    const Shape &rows = graph[op.operands[0]].type.shape, &shape = graph[v].type.shape;
    const bool same = shape.size() == 3 && shape[0] == rows[0] && shape[1] == rows[1] && rows[1] > 0;
    return same ? std::min(1.0, load * static_cast<double>(expected->front()) / static_cast<double>(rows[1]))
                : 1;
}

/// A product of m x n x k at product_efficiency x s / (s + product_half), where s is the harmonic mean of m,
/// n and k: the time of its FLOPs, and a time for each of the mk + kn + mn elements, which is the same in all
/// types.
Seconds product_seconds(const Machine& machine, Flops flops, double elements, double peak, i64 threads)
{
    return (flops / peak + 2. / 3 * machine.product_half * elements / machine.peak(DType::bf16, threads)) /
           machine.product_efficiency;
}

Seconds seconds_of_product(const Graph& graph, const Op& op, Flops flops, const Machine& machine, i64 threads)
{
    const bool fp8 = op.attrs->fp8 && machine.flops_fp8 > 0, grouped = op.attrs->lists.find(Attr::groups);
    const DType type = graph[op.operands[0]].type.dtype;
    double peak = fp8 ? machine.peak_fp8(threads) : machine.peak(type, threads);
    if (grouped && machine.flops_grouped > 0)
        peak = std::min(peak, machine.flops_grouped * static_cast<double>(machine.workers(threads)));
    const double load = load_of(graph, op, machine);
    double elements = 0, bytes = 0, in = 0, in_bytes = 0, behind = 0; // that the op reads or writes; zeros
    const auto note = [&](ValueId v, bool counts, bool made) {
        const TensorType& t = graph[v].type;
        const double used = used_part(graph, op, v, load);
        elements += counts ? used * static_cast<double>(t.elements()) : 0;
        bytes += used * static_cast<double>(t.bytes());
        behind += made ? (1 - used) * static_cast<double>(t.bytes()) : 0;
    };
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        note(op.operands[i], i < 2, false);
        if (i == 1) {
            in = elements;
            in_bytes = bytes;
        }
    }
    for (std::size_t r = 0; r < op.results.size(); ++r)
        note(op.results[r], r == 0, true);
    const Seconds product = product_seconds(machine, load * flops, elements, peak, threads);
    // Each operand is read for its maximum, and read again and written as bytes, which the product reads.
    return (fp8 ? memory_seconds(machine, 2 * in_bytes + in) +
                      std::max(product, memory_seconds(machine, bytes - in_bytes + in))
                : std::max(product, memory_seconds(machine, bytes))) +
           memory_seconds(machine, behind);
}

/// Attention as separate kernels over all pairs of a query and a key (Korthikanti et al. 2022,
/// arXiv:2205.05198): two products, softmax and dropout forward, four products and the gradients of both
/// backward. Each kernel reads and writes a number per head and pair, dropout also a byte.
Seconds seconds_of_unfused_attention(const Graph& graph, const Op& op, const Machine& machine, i64 threads)
{
    const bool backward = priced_as(op.kind) == OpKind::attention_grad;
    const TensorType &q = graph[op.operands[backward ? 1 : 0]].type,
                     &k = graph[op.operands[backward ? 2 : 1]].type,
                     &v = graph[op.operands[backward ? 3 : 2]].type;
    const i64 keys = k.shape[1], queries = q.shape[1], head = (q.shape.back() + v.shape.back()) / 2;
    const double heads = static_cast<double>(q.elements() / (queries * q.shape.back())); // of all sequences
    const double pairs = heads * static_cast<double>(queries) * static_cast<double>(keys);
    const double elements = pairs + heads * static_cast<double>((queries + keys) * head);
    const Seconds product = product_seconds(machine, 2 * pairs * static_cast<double>(head), elements,
                                            machine.peak(q.dtype, threads), threads);
    // Forward: scores and softmax read and write, dropout reads and writes. Backward: the gradient of
    // dropout, then of softmax, which also reads its result.
    const double passes = backward ? 5 : 4, products = backward ? 4 : 2;
    const Seconds moving =
        memory_seconds(machine, pairs * (passes * static_cast<double>(size_of(q.dtype)) + 1));
    const Seconds one =
        std::max(product, memory_seconds(machine, pairs * static_cast<double>(size_of(q.dtype))));
    return (products + 2) * machine.launch + products * one + moving;
}

Seconds seconds_of_compute(const Graph& graph, const Op& op, const Machine& machine, const OpTimes& measured,
                           i64 threads)
{
    if (op.operands.empty())
        return machine.launch;
    const auto bytes = static_cast<double>(bytes_of(graph, op));
    if (op.attrs->space) // the bytes leave one memory and reach the other
        return machine.launch + bytes / 2 / machine.host_link_rate();
    if (result_space(graph, op) == Space::host)
        return machine.launch + bytes / machine.host_rate();
    const ScratchKind kind = info(op).scratch; // tells products and attention from the others
    if (const std::optional<Seconds> seconds = measured.seconds(graph, op))
        return *seconds * static_cast<double>(machine.workers(machine.ops_threads)) /
               static_cast<double>(machine.workers(threads));
    const Flops flops = flops_of(graph, op);
    if (kind == ScratchKind::product && op.operands.size() > 1)
        return machine.launch + seconds_of_product(graph, op, flops, machine, threads);
    const bool attention = kind == ScratchKind::attention;
    const OpKind like = priced_as(op.kind);
    if (!machine.fused_attention && (like == OpKind::attention || like == OpKind::attention_grad))
        return seconds_of_unfused_attention(graph, op, machine, threads);
    const double peak = machine.peak(graph[op.operands[0]].type.dtype, threads);
    return machine.launch + std::max(flops / ((attention ? machine.attention_efficiency : 1) * peak),
                                     memory_seconds(machine, bytes));
}

} // namespace

Bytes bytes_sent(const Graph& graph, const Op& op)
{
    if (info(op).exchanges)
        return box_exchange_sent(exchange_of(graph, op), exchange_rank(graph, op));
    const i64 ranks = op.attrs->tag ? 1 : graph.mesh.ranks_along(*op.attrs->axis);
    if (op.kind == OpKind::exchange_rows) {
        const TensorType& rows = graph[op.operands[0]].type;
        const Bytes all = rows.shape[0] * expected_rows(graph, op) * rows.shape[2] * size_of(rows.dtype);
        return all - ceil_div(all, ranks);
    }
    Bytes in = 0, out = 0;
    for (const ValueId v : op.operands)
        in += graph[v].type.bytes();
    for (const ValueId v : op.results)
        out += graph[v].type.bytes();
    if (op.attrs->to)
        return in;
    if (op.attrs->from)
        return 0;
    const Bytes all = (goes_both_ways(op) ? 2 : 1) * std::max(in, out);
    return all - ceil_div(all, ranks); // all * (ranks - 1) / ranks, without overflow
}

Bytes mean_bytes_sent(const Graph& graph, const Op& op)
{
    return info(op).exchanges ? static_cast<Bytes>(std::ceil(mean_box_exchange_sent(exchange_of(graph, op))))
                              : bytes_sent(graph, op);
}

std::vector<OpCost> op_costs(const Graph& graph, const Machine& machine, i64 threads)
{
    GroupPlacement placement(graph.mesh, machine);
    const OpTimes& measured = op_times(machine.ops);
    const double slower = 1 + machine.stragglers * expected_maximum(graph.mesh.ranks());
    std::vector<OpCost> costs;
    for (const Op& op : graph.ops)
        costs.push_back(
            info(op).communicates
                ? cost_of_move(graph, op, machine, measured, placement)
                : OpCost{.alone = slower * seconds_of_compute(graph, op, machine, measured, threads)});
    return costs;
}

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

std::vector<Seconds> overlap_seconds(const Graph& graph, const Machine& machine, i64 threads)
{
    std::vector<Seconds> seconds;
    for (const OpCost& cost : op_costs(graph, machine, threads))
        seconds.push_back(std::max(0., cost.alone - cost.copying));
    return seconds;
}

TransferCost transfer_cost(const std::string& axis, const Mesh& mesh, const Machine& machine, Bytes bytes)
{
    GroupPlacement placement(mesh, machine);
    return collective_cost(axis, static_cast<double>(bytes), 1, mesh, machine, placement);
}

} // namespace trivium
