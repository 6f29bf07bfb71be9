#include "plan/cost.hpp"

#include "base/check.hpp"
#include "ir/exchange.hpp"
#include "ir/ops/op_table.hpp"
#include "plan/op_cost.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace trivium {

namespace {

/// A rank on the clock of simulate().
class RankClock {
public:
    /// What the ranks know of each other; their numbers are places in `ranks`.
    struct Shared {
        using Message = std::tuple<std::size_t, std::size_t, i64, i64>; ///< from, to, tag and microbatch
        const std::vector<StageProgram>& ranks;
        std::map<Message, Seconds> sent{}; ///< when
        /// By axis, number and first rank: of collectives, when each rank begins it.
        std::map<std::tuple<std::string_view, std::size_t, std::size_t>, std::map<std::size_t, Seconds>>
            meetings{};
    };

    RankClock(const StageProgram& program, std::size_t place, const Machine& machine, i64 threads,
              Seconds begin = 0)
        : program_(program), place_(place), along_of_(program.graph->ops.size(), nullptr),
          launch_(machine.launch), measured_(program.measured),
          costs_(op_costs(*program.graph, machine, threads)), known_(program.schedule->steps.size(), false),
          late_(program.schedule->queues.size(), 0), queues_(program.schedule->queues.size()),
          next_(queues_.size(), 0), waits_for_(queues_.size(), none), free_at_(queues_.size(), begin)
    {
        timeline_.spans.resize(known_.size());
        std::size_t computed = known_.size();
        for (std::size_t i = 0; i < known_.size(); ++i) {
            if (const Op* op = op_of(i); !machine.early_reductions && op &&
                                         op->region == Region::microbatch && queue_of(i) == queue_compute)
                last_of_microbatches_ = i;
            if (const Op* op = op_of(i); op && op->region == Region::microbatch)
                late_[queue_of(i)] = i + 1;
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
        std::ranges::replace(waits_for_, another_rank, none);
        for (;;) {
            std::size_t first = known_.size();
            Seconds first_begin = 0;
            for (std::size_t q = 0; q < queues_.size(); ++q) {
                if (next_[q] == queues_[q].size() || still_waits(q))
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
    static constexpr std::size_t none = ~std::size_t{0}, another_rank = none - 1;

    /// A transfer that occupies a link, and a part of the compute.
    struct Moving {
        std::size_t step = 0;
        Link link = Link::none;
        double share = 0;
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
    /// The simulated ranks that differ from this one only along an axis.
    struct Along {
        std::vector<std::size_t> places{}; ///< by index along it; `none`: not simulated. Of one alone empty
        std::vector<std::size_t> others{};
        std::size_t first = none; ///< the least place
    };
    /// Of a collective or message.
    const Along& along(std::size_t i, const Shared& shared)
    {
        const Along*& known = along_of_[program_.schedule->steps[i].op.index()];
        if (!known)
            known = &along(*op_of(i)->attrs->axis, shared);
        return *known;
    }
    const Along& along(const std::string& axis, const Shared& shared)
    {
        const auto [at, added] = along_.try_emplace(axis);
        Along& made = at->second;
        const Graph& g = *program_.graph;
        if (!added || g.at.empty())
            return made;
        const std::vector<std::string> axes = axes_of_group(g.mesh, axis);
        const Coordinates first = g.mesh.first_along(axes, g.at);
        std::map<i64, std::size_t> present;
        for (std::size_t place = 0; place < shared.ranks.size(); ++place)
            if (const Coordinates& other = shared.ranks[place].graph->at;
                g.mesh.first_along(axes, other) == first)
                present[g.mesh.rank(other)] = place;
        for (const auto& [rank, place] : present) {
            made.first = std::min(made.first, place);
            if (place != place_)
                made.others.push_back(place);
        }
        if (!made.others.empty())
            for (const i64 rank : g.mesh.group(g.at, axes)) {
                const auto known = present.find(rank);
                made.places.push_back(known == present.end() ? none : known->second);
            }
        return made;
    }
    Shared::Message message(std::size_t i, const Shared& shared)
    {
        const Attributes& attrs = op_of(i)->attrs;
        const std::vector<std::size_t>& places = along(i, shared).places;
        const auto index = static_cast<std::size_t>(attrs.to ? *attrs.to : *attrs.from);
        const std::size_t other = index < places.size() ? places[index] : none;
        const i64 microbatch = program_.schedule->steps[i].microbatch;
        return attrs.to ? Shared::Message(place_, other, *attrs.tag, microbatch)
                        : Shared::Message(other, place_, *attrs.tag, microbatch);
    }
    /// The simulated ranks that send this one something in an exchange of boxes.
    const std::vector<std::size_t>& senders(std::size_t i, const Along& group)
    {
        const OpId op = program_.schedule->steps[i].op;
        const auto [at, added] = senders_.try_emplace(op);
        if (added)
            for_each_part(
                exchange_of(*program_.graph, *op_of(i)), exchange_rank(*program_.graph, *op_of(i)),
                [](auto&&...) {},
                [&](std::size_t peer, auto&&...) {
                    if (group.places[peer] != none)
                        at->second.push_back(group.places[peer]);
                });
        return at->second;
    }

    /// When a collective begins, to which this rank has come at `begin`; nothing if one for which it waits
    /// has not.
    std::optional<Seconds> meeting(std::size_t i, Seconds begin, Shared& shared)
    {
        const Op& op = *op_of(i);
        const Along& group = along(i, shared);
        if (group.others.empty())
            return begin;
        auto& begins = shared.meetings[{*op.attrs->axis, next_[queue_of(i)], group.first}];
        begins.try_emplace(place_, begin);
        for (const std::size_t other : info(op).exchanges ? senders(i, group) : group.others) {
            const auto come = begins.find(other);
            if (come == begins.end())
                return {};
            begin = std::max(begin, come->second);
        }
        return begin;
    }

    /// Whether what the next Step of a queue waited for when begin_of() had no answer has not come.
    bool still_waits(std::size_t queue) const
    {
        const std::size_t other = waits_for_[queue];
        return other == another_rank || (other != none && !known_[other]);
    }

    /// Nothing if a Step for which it waits has not run, its message is not sent, or another rank has not
    /// come to their collective; then waits_for_ has which.
    std::optional<Seconds> begin_of(std::size_t i, Shared* shared)
    {
        Seconds begin = free_at_[queue_of(i)];
        const auto waits_for = [&](std::size_t other) {
            waits_for_[queue_of(i)] = other;
            return std::optional<Seconds>();
        };
        for (const StepId wait : program_.schedule->steps[i].waits) {
            if (!known_[wait.index()])
                return waits_for(wait.index());
            begin = std::max(begin, timeline_.spans[wait.index()].end);
        }
        if (!follows_.empty() && follows_[i] < known_.size()) {
            if (!known_[follows_[i]])
                return waits_for(follows_[i]);
            begin = std::max(begin, timeline_.spans[follows_[i]].end);
            const Span& now = timeline_.spans[last_computed_];
            if (queue_of(i) != queue_compute && now.begin < begin && begin < now.end)
                begin = now.end;
        }
        const Op* op = op_of(i);
        if (!op || !info(*op).communicates)
            return begin;
        if (last_of_microbatches_ && op->region == Region::epilogue && i >= late_[queue_of(i)]) {
            if (!known_[*last_of_microbatches_])
                return waits_for(*last_of_microbatches_);
            begin = std::max(begin, timeline_.spans[*last_of_microbatches_].end);
        }
        if (!shared)
            return begin;
        if (!op->attrs->tag) {
            const std::optional<Seconds> met = meeting(i, begin, *shared);
            return met ? met : waits_for(another_rank);
        }
        if (op->attrs->from && !shared->sent.contains(message(i, *shared)))
            return waits_for(another_rank);
        return begin;
    }

    /// How long `work` seconds of compute take if something takes `share` of it for the next `busy` seconds.
    Seconds slowed(Seconds work, Seconds busy, double share) const
    {
        if (measured_ || busy <= 0) // a measured kernel has been slowed
            return work;
        return work >= (1 - share) * busy ? work + share * busy : work / (1 - share);
    }

    void run(std::size_t i, Seconds begin, Shared* shared)
    {
        const Op* op = op_of(i);
        const OpCost cost = op ? costs_[program_.schedule->steps[i].op.index()] : OpCost{.alone = launch_};
        Seconds end = begin + cost.alone;
        if (measured_ && !(op && info(*op).communicates))
            end = begin + measured_->spans[i].end - measured_->spans[i].begin;
        if (shared && op && op->attrs->from)
            end = std::max(begin, shared->sent.at(message(i, *shared)));
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
            moving_.push_back({i, cost.link, cost.share});
        }
        if (queue_of(i) == queue_compute) {
            for (const Moving& other : moving_) // that run already
                end = begin + slowed(end - begin, timeline_.spans[other.step].end - begin, other.share);
            last_computed_ = i;
        } else if (const Span& now = timeline_.spans[last_computed_];
                   cost.share > 0 && queue_of(last_computed_) == queue_compute && now.end > begin) {
            timeline_.spans[last_computed_].end = begin + slowed(now.end - begin, end - begin, cost.share);
            free_at_[queue_compute] = std::max(free_at_[queue_compute], timeline_.spans[last_computed_].end);
        }
        timeline_.spans[i] = {begin, end};
        known_[i] = true;
        ++next_[queue_of(i)];
        free_at_[queue_of(i)] = end;
        if (cost.copying > 0)
            free_at_[queue_compute] = std::max(free_at_[queue_compute], begin) + cost.copying;
        if (shared && op && op->attrs->to)
            shared->sent[message(i, *shared)] = end;
    }

    const StageProgram& program_;
    std::size_t place_;
    std::map<std::string, Along> along_; ///< by axis
    std::vector<const Along*> along_of_; ///< by op: in along_, or null if not known
    std::map<OpId, std::vector<std::size_t>> senders_;
    Seconds launch_;
    const Timeline* measured_;
    std::vector<OpCost> costs_; ///< by op
    std::vector<bool> known_;   ///< by Step: it has run
    /// On hosts the thread that computes starts the transfers, too, between two Steps. By Step: the last one
    /// of the list that computes before it; empty on devices.
    std::vector<std::size_t> follows_;
    std::size_t last_computed_ = 0;
    std::optional<std::size_t> last_of_microbatches_; ///< that computes; without early reductions
    std::vector<std::size_t> late_; ///< by queue: behind it, no transfers of microbatches follow
    std::vector<std::vector<std::size_t>> queues_;
    std::vector<std::size_t> next_;      ///< by queue
    std::vector<std::size_t> waits_for_; ///< by queue: a Step, or `another_rank`, or `none` if not known
    std::vector<Seconds> free_at_;       ///< by queue
    std::vector<Moving> moving_;
    Timeline timeline_;
};

} // namespace

std::vector<Timeline> simulate(const std::vector<StageProgram>& ranks, const Machine& machine, i64 threads,
                               const std::vector<Seconds>& begins)
{
    std::vector<RankClock> clocks;
    for (std::size_t r = 0; r < ranks.size(); ++r)
        clocks.emplace_back(ranks[r], r, machine, threads, begins.empty() ? 0 : begins[r]);
    RankClock::Shared shared{ranks};
    for (bool moved = true; moved;) {
        moved = false;
        for (RankClock& clock : clocks)
            moved = clock.advance(&shared) || moved;
    }
    std::vector<Timeline> timelines;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        TRV_CHECK(clocks[r].stuck() == ranks[r].schedule->steps.size(), "program ", r,
                  " waits forever at step ", clocks[r].stuck());
        timelines.push_back(clocks[r].take());
    }
    return timelines;
}

Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads)
{
    const StageProgram program{&graph, &schedule};
    RankClock clock(program, 0, machine, threads);
    clock.advance(nullptr);
    TRV_CHECK(clock.stuck() == schedule.steps.size(), "waits forever at step ", clock.stuck());
    return clock.take();
}

Flops model_flops(const Graph& graph, i64 microbatches)
{
    // Whether a value depends on a parameter, and on one that is not frozen.
    std::vector<bool> depends(graph.values.size(), false), trained(graph.values.size(), false);
    for (const ValueId p : graph.with_role(Role::parameter)) {
        depends[p.index()] = true;
        trained[p.index()] = graph[p].update.kind != UpdateKind::frozen;
    }
    Flops sum = 0;
    for (const Op& op : graph.ops) {
        if (op.region == Region::epilogue || op.phase != Phase::forward)
            continue;
        int frozen = 0;
        for (const ValueId v : op.operands) {
            frozen += depends[v.index()] && !trained[v.index()] ? 1 : 0;
            for (const ValueId r : op.results) {
                depends[r.index()] = depends[r.index()] || depends[v.index()];
                trained[r.index()] = trained[r.index()] || trained[v.index()];
            }
        }
        if (op.region == Region::microbatch)
            sum += std::max(1, 3 - frozen) * flops_of(graph, op);
    }
    return sum * static_cast<Flops>(microbatches);
}

} // namespace trivium
