#include "compile/bucket_plans.hpp"

#include "base/check.hpp"
#include "compile/graphs.hpp"
#include "ir/collectives.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <limits>

namespace trivium {

namespace {

/// The part of a step's time line to which a class belongs.
enum class Part { forward_gathers, backward_gathers, reductions };

Part part_of(const Graph& graph, const BucketClass& c, const BucketMember& first)
{
    const Op& op = graph[first.op];
    if (c.region == Region::epilogue || (c.region == Region::microbatch && !gathers_parameters(graph, op)))
        return Part::reductions;
    return c.region == Region::microbatch && c.phase == Phase::backward ? Part::backward_gathers
                                                                        : Part::forward_gathers;
}

Bytes whole_bytes(const Graph& graph, const Op& op)
{
    return std::max(graph[op.operands[0]].type.bytes(), graph[op.results[0]].type.bytes());
}

} // namespace

Machine deciding_machine(const ParallelConfig& p, bool is_device)
{
    const std::string name = !p.machine.empty() ? p.machine : is_device ? "h100" : "cpu";
    const std::vector<std::string> names = machine_names();
    if (std::ranges::find(names, name) == names.end())
        throw UserError({"parallel.machine", str("unknown machine '", name, "'"), "",
                         "use " + one_of(names) + ", or leave it empty"});
    return with_delay(machine_called(name), p.delay_latency, p.delay_bandwidth);
}

std::string usual_buckets(const ParallelConfig& p)
{
    return p.bucket != "auto" ? p.bucket : transfers_in_microbatches(p) ? "block" : "greedy";
}

GraphProfile BucketPlans::profile(const Graph& graph) const
{
    // Of each part, the class with most bytes.
    const std::map<BucketClass, std::vector<BucketMember>> members = bucket_members(graph);
    std::map<Part, std::pair<Bytes, BucketClass>> chosen;
    for (const auto& [c, list] : members) {
        if (!joins(c.axis, zero_axis(config_.parallel)))
            continue;
        Bytes bytes = 0;
        for (const BucketMember& member : list)
            bytes += whole_bytes(graph, graph[member.op]);
        auto& best = chosen[part_of(graph, c, list.front())];
        if (bytes > best.first)
            best = {bytes, c};
    }
    GraphProfile all;
    BucketProfile& p = all.profile;
    std::vector<bool> moves(graph.ops.size(), false); // in the profile as a transfer
    for (const auto& [part, best] : chosen)
        for (const BucketMember& member : members.at(best.second))
            moves[member.op.index()] = true;

    // A segment is an op of a microbatch; other collectives count as compute.
    const std::vector<Seconds> seconds = op_seconds(graph, machine_, threads());
    std::vector<std::size_t> segment_of(graph.ops.size() + 1, 0); // the first segment at or after the op
    bool backward = false;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        if (op.region == Region::microbatch && op.phase == Phase::backward && !backward) {
            backward = true;
            p.backward = p.segments.size();
        }
        segment_of[i] = p.segments.size();
        if (op.region == Region::microbatch && !moves[i])
            p.segments.push_back(seconds[i]);
    }
    if (!backward)
        p.backward = p.segments.size();
    const std::size_t last = p.segments.empty() ? 0 : p.segments.size() - 1;
    segment_of.back() = last;

    int first_block = std::numeric_limits<int>::max(); // stages of equal layers have equal profiles
    for (const auto& [part, best] : chosen)
        for (const BucketMember& member : members.at(best.second))
            first_block = std::min(first_block, graph[member.op].block);

    for (const auto& [part, best] : chosen) {
        const BucketClass& c = best.second;
        const TransferCost cost = transfer_cost(c.axis, graph.mesh, machine_);
        p.bytes_per_second = cost.bytes_per_second;
        const bool reduces = part == Part::reductions;
        const Seconds latency = cost.start + (c.combine ? 2 : 1) * cost.messages;
        (reduces ? p.reduction_latency : p.gather_latency) = latency;
        for (const BucketMember& member : members.at(c)) {
            const Op& op = graph[member.op];
            ProfiledTransfer t{std::min(segment_of[member.due], last), bytes_sent(graph, op),
                               whole_bytes(graph, op), op.block - first_block};
            if (part == Part::forward_gathers) // whatever reads it, it is needed in the forward pass
                t.segment = std::min(t.segment, p.backward > 0 ? p.backward - 1 : 0);
            (reduces ? p.reductions : p.gathers).push_back(t);
        }
        (reduces ? all.reductions : all.gathers).push_back(c);
        if (reduces)
            p.reductions_wait = c.region == Region::microbatch;
        else if (c.region == Region::prologue)
            p.gathers_ahead = true;
    }
    // The cap of SimpleFSDP: a fifth of what a pass gathers or reduces. Small models need none.
    Bytes gathered = 0, reduced = 0;
    for (const ProfiledTransfer& t : p.gathers)
        gathered += t.segment < p.backward ? t.whole : 0;
    for (const ProfiledTransfer& t : p.reductions)
        reduced += t.whole;
    p.largest = std::max(BucketConfig{}.bytes, std::max(gathered, reduced) / 5);
    p.most = config_.parallel.tile;
    if (p.most > 0)
        p.largest = std::min(p.largest, p.most);
    // No plan needs more memory than one bucket per block, but for little ones.
    p.memory = std::max(2 * BucketConfig{}.bytes, estimate(p, block_buckets(p)).in_flight);
    return all;
}

BucketConfig GraphProfile::config_of(const BucketPlan& plan) const
{
    BucketConfig config;
    config.most = profile.most;
    config.by_block = !reductions.empty() && !profile.reductions_wait; // for those along other axes
    const auto share = [&](const std::vector<int>& sizes, const std::vector<BucketClass>& classes,
                           const std::vector<ProfiledTransfer>& transfers, bool by_pass) {
        if (classes.empty())
            return;
        std::size_t next = 0;
        for (const int size : sizes) {
            const bool second = by_pass && classes.size() > 1 && transfers[next].segment >= profile.backward;
            config.sizes[classes[second ? 1 : 0]].push_back(size);
            next += static_cast<std::size_t>(size);
        }
    };
    share(plan.gathers, gathers, profile.gathers, true);
    share(plan.reductions, reductions, profile.reductions, false);
    return config;
}

const BucketPlan& BucketPlans::plan(const BucketProfile& p, const std::string& mode)
{
    auto at = std::ranges::find_if(known_, [&](const Known& each) { return each.profile == p; });
    if (at == known_.end())
        at = known_.insert(at, Known{p, {}});
    const auto [plan, unknown] = at->plans.try_emplace(mode);
    if (unknown)
        plan->second = mode == "greedy" ? greedy_buckets(p) : global_buckets(p);
    return plan->second;
}

BucketConfig BucketPlans::with_mode(const Graph& graph, const std::string& mode)
{
    BucketConfig config = with_mode_of_others(graph, mode);
    for (const Op& op : graph.ops)
        if (reduces_to_all(op) && op.region == Region::microbatch && mode != "none") {
            const auto [most, unknown] = config.awaited.try_emplace(*op.attrs->axis);
            const TransferCost cost = transfer_cost(most->first, graph.mesh, machine_);
            if (unknown)
                most->second =
                    static_cast<Bytes>(std::min(1e9, (cost.start + cost.messages) * cost.bytes_per_second));
        }
    return config;
}

BucketConfig BucketPlans::with_mode_of_others(const Graph& graph, const std::string& mode)
{
    BucketConfig config;
    if (mode == "greedy" || mode == "global") {
        const GraphProfile found = profile(graph);
        return found.config_of(plan(found.profile, mode));
    }
    config.most = config_.parallel.tile;
    if (mode == "none")
        config.bytes = 0;
    else if (mode == "block")
        config.by_block = true;
    else {
        config.bytes = std::stoll(mode);
        config.microbatches_by_block = false;
    }
    return config;
}

} // namespace trivium
