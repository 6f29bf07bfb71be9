#include "passes/pipeline/stage.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace trivium {

/// For each pipeline rank, the ops that it runs, and the values that cross between ranks.
struct StageGraphs::Impl {
    Impl(const Graph& graph, StageConfig config)
        : g_(graph), c_(std::move(config)), ranks_(1 + *std::ranges::max_element(c_.rank_of_stage))
    {
        find_homes();
        // The values of the epilogue that a rank needs follow from the parameters that each rank holds.
        for (int r = 0; r < ranks_; ++r)
            pull_microbatch(r);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::epilogue)
                pull_update(OpId(i));
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::epilogue && runs_[i].empty())
                pull_unheld_update(OpId(i));
        for (int r = 0; r < ranks_; ++r)
            for (const ValueId v : g_.outputs)
                if (outputs_on(v, r))
                    pull(v, r);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (info(g_.ops[i]).contributes && !runs_[i].empty())
                for (const ValueId v : g_.ops[i].operands)
                    pull(v, contributor(v));
        find_readers();
    }

    Graph of(int rank)
    {
        me_ = rank;
        inbox_.clear();
        Graph out;
        out.name = g_.name;
        out.file = g_.file;
        out.mesh = g_.mesh;
        out.stage_of_block = c_.stage_of_block;
        Builder b(out);
        std::vector<ValueId> local(g_.values.size());
        const auto use = [&](ValueId v) -> ValueId {
            if (!local[v.index()]) {
                if (const OpId producer = g_[v].producer)
                    throw UserError(
                        {place_of(g_, g_[producer]),
                         str("pipeline rank ", me_, " needs %", g_[v].name, " and does not receive it"),
                         "no op on this rank computes it, and no message carries it",
                         "move the op that reads it to the stage that computes it"});
                out.values.push_back(g_[v]);
                local[v.index()] = ValueId(out.values.size() - 1);
            }
            return local[v.index()];
        };
        // In the order of the global graph, the same on all ranks at this place of the pipeline.
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            if (!g_.values[i].producer && used_here(ValueId(i)))
                use(ValueId(i));
        bool sent = false;
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            const Op& op = g_.ops[i];
            // Accumulated values are final after the last microbatch.
            if (op.region == Region::epilogue && !std::exchange(sent, true))
                send_accumulated(b, local);
            if (runs_[i].count(me_)) {
                for (const ValueId v : op.operands)
                    if (!local[v.index()] && crosses(v, me_) && wants(op, v)) {
                        for (const ValueId due : due_before(v))
                            if (ValueId& here = local[due.index()]; !here)
                                here = receive(b, due, earlier_of(reader_of({due, me_}), op));
                        local[v.index()] = receive(b, v, earlier_of(reader_of({v, me_}), op));
                    }
                Op copy = op;
                copy.operands.clear();
                if (copy.attrs->at)
                    copy.attrs.edit().at->clear();
                for (std::size_t o = 0; o < op.operands.size(); ++o)
                    if (wants(op, op.operands[o])) {
                        copy.operands.push_back(use(op.operands[o]));
                        if (copy.attrs->at)
                            copy.attrs.edit().at->push_back((*op.attrs->at)[o]);
                    }
                for (ValueId& r : copy.results) {
                    Value made = g_[r];
                    made.producer = OpId(out.ops.size());
                    out.values.push_back(std::move(made));
                    local[r.index()] = ValueId(out.values.size() - 1);
                    r = local[r.index()];
                }
                out.ops.push_back(std::move(copy));
            }
            if (has_home(op) && home(op) == me_)
                for (const ValueId v : op.results)
                    send_now(b, v, local[v.index()], op.region);
        }
        if (!sent)
            send_accumulated(b, local);
        for (const Carry& carry : g_.carries)
            if (local[carry.out.index()] && g_[carry.out].producer &&
                runs_[g_[carry.out].producer.index()].count(me_))
                out.carries.push_back({local[carry.in.index()], local[carry.out.index()]});
        for (const ValueId v : g_.outputs) {
            if (!outputs_on(v, me_))
                continue;
            if (!local[v.index()] && crosses(v, me_)) {
                Op output = g_[g_[v].producer];
                output.region = Region::epilogue;
                local[v.index()] = receive(b, v, output);
            }
            out.outputs.push_back(use(v));
        }
        sort_regions(out);
        return out;
    }

    const std::map<ValueId, std::set<int>>& held() const { return held_; }
    const Graph& graph() const { return g_; }

private:
    /// A value that rank `to` needs from another rank.
    struct Crossing {
        ValueId value;
        int to = 0;
        auto operator<=>(const Crossing&) const = default;
    };

    /// The rank of an op's block.
    int home(const Op& op) const { return c_.rank_of_block(op.block); }
    /// What a microbatch computes is an output of the rank that computes it.
    bool outputs_on(ValueId v, int rank) const
    {
        const OpId producer = g_[v].producer;
        return !producer || g_[v].lifetime != Lifetime::microbatch || home(g_[producer]) == rank;
    }
    bool in_epilogue(const Crossing& c) const { return g_[c.value].lifetime != Lifetime::microbatch; }

    /// Whether the op runs on a single rank of the pipeline, which sends its results: in the microbatch, and
    /// if it only reshards such a result (a gradient is reduced over other axes before it is sent).
    bool has_home(const Op& op) const { return home_[static_cast<std::size_t>(&op - g_.ops.data())]; }

    void find_homes()
    {
        for (const Op& op : g_.ops) {
            const OpId producer = op.operands.empty() ? OpId{} : g_[op.operands[0]].producer;
            home_.push_back(op.region == Region::microbatch ||
                            (info(op).placement && op.region == Region::epilogue && producer &&
                             home_[producer.index()] && home(g_[producer]) == home(op)));
        }
    }

    void pull_microbatch(int rank)
    {
        runs_.resize(g_.ops.size());
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::microbatch && home(g_.ops[i]) == rank) {
                runs_[i].insert(rank);
                for (const ValueId v : g_.ops[i].operands) {
                    require_complete(g_.ops[i], v);
                    pull(v, rank);
                }
            }
    }

    /// What another rank accumulates is complete only after the last microbatch.
    void require_complete(const Op& op, ValueId v) const
    {
        const OpId producer = g_[v].producer;
        if (producer && home_[producer.index()] && home(g_[producer]) != home(op) &&
            g_[v].lifetime != Lifetime::microbatch)
            throw UserError({place_of(g_, op),
                             str("reads %", g_[v].name, ", which another pipeline stage accumulates"),
                             "it is complete only after the last microbatch",
                             "give each stage an accumulator of its own, and add them in the epilogue"});
    }

    /// Makes `wanted` available on a rank, with all ops that compute it there. Not recursive, because chains
    /// may be long.
    void pull(ValueId wanted, int wanted_on)
    {
        std::vector<std::pair<ValueId, int>> open{{wanted, wanted_on}};
        while (!open.empty()) {
            auto [v, rank] = open.back();
            open.pop_back();
            if (!g_[v].producer) {
                held_[v].insert(rank);
                continue;
            }
            const std::size_t i = g_[v].producer.index();
            const Op& op = g_.ops[i];
            if (has_home(op) && home(op) != rank) {
                crossings_.insert({v, rank});
                rank = home(op);
            }
            if (op.region == Region::microbatch)
                continue;
            if (!runs_[i].insert(rank).second || info(op).contributes)
                continue;
            for (const ValueId operand : op.operands)
                open.emplace_back(operand, rank);
        }
    }

    /// An in-place update runs on every rank that holds the updated value: with a parameter that the
    /// microbatches need not read, on that of its block.
    void pull_update(OpId id)
    {
        const Op& op = g_[id];
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r)) {
                if (g_[into].role == Role::parameter)
                    pull(into, home(op));
                if (held_.count(into))
                    for (const int rank : std::set<int>(held_[into]))
                        if (runs_[id.index()].insert(rank).second)
                            for (const ValueId v : op.operands)
                                pull(v, rank);
            }
    }

    /// An in-place update of a value that no rank holds yet, such as the average of a parameter: it runs
    /// where another operand is, or on the rank of its block.
    void pull_unheld_update(OpId id)
    {
        const Op& op = g_[id];
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            const ValueId into = aliased_operand(op, r);
            if (!into || g_[into].lifetime != Lifetime::run || held_.count(into))
                continue;
            std::set<int> ranks;
            for (const ValueId v : op.operands)
                if (const OpId producer = g_[v].producer; v != into && ranks.empty())
                    ranks = producer ? runs_[producer.index()] : held_[v];
            if (ranks.empty())
                ranks.insert(home(op));
            for (const int rank : ranks)
                if (runs_[id.index()].insert(rank).second)
                    for (const ValueId v : op.operands)
                        pull(v, rank);
        }
    }

    /// Ranks that already hold `wanted`, or everything from which it is computed. Not recursive, because
    /// chains may be long.
    std::set<int> available(ValueId wanted)
    {
        std::map<ValueId, std::set<int>> known;
        std::vector<ValueId> open{wanted};
        while (!open.empty()) {
            const ValueId v = open.back();
            const OpId producer = g_[v].producer;
            const auto runs = producer ? runs_[producer.index()] : std::set<int>{};
            if (known.count(v))
                open.pop_back();
            else if (!producer)
                known[v] = held_[v];
            else if (has_home(g_[producer]))
                known[v] = {home(g_[producer])};
            else if (!runs.empty() && !info(g_[producer]).contributes)
                known[v] = runs;
            else if (const auto unknown = std::ranges::find_if(g_[producer].operands,
                                                               [&](ValueId o) { return !known.count(o); });
                     unknown != g_[producer].operands.end())
                open.push_back(*unknown);
            else {
                std::set<int> all;
                for (int r = 0; r < ranks_; ++r)
                    all.insert(r);
                for (const ValueId operand : g_[producer].operands)
                    std::erase_if(all, [&, &there = known[operand]](int r) { return !there.count(r); });
                known[v] = all;
            }
        }
        return known[wanted];
    }

    /// The only rank whose copy of `v` is counted in sums over the pipeline.
    int contributor(ValueId v)
    {
        const auto [at, added] = contributor_.try_emplace(v, 0);
        if (!added)
            return at->second;
        const OpId producer = g_[v].producer;
        if (const std::set<int> ranks = available(v); !ranks.empty())
            at->second = *ranks.begin();
        else if (producer) // of a parameter that nothing else reads
            at->second = home(g_[producer]);
        return at->second;
    }

    bool wants(const Op& op, ValueId v) { return !info(op).contributes || contributor(v) == me_; }

    bool used_here(ValueId v)
    {
        const auto at = held_.find(v);
        return at != held_.end() && at->second.count(me_) > 0;
    }

    /// Where messages are received or sent together: a stage and a phase.
    std::pair<int, Phase> task_of(const Op& op) const
    {
        return {c_.stage_of_block[static_cast<std::size_t>(op.block)], op.phase};
    }

    /// The first reader of a crossing, by turn; null if the microbatch has none.
    const Op* reader_of(const Crossing& crossing) const
    {
        const auto at = readers_.find(crossing);
        return at == readers_.end() ? nullptr : at->second;
    }

    void find_readers()
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::microbatch)
                for (const int rank : runs_[i])
                    for (const ValueId v : g_.ops[i].operands)
                        if (crosses(v, rank)) {
                            const Op*& first = readers_[{v, rank}];
                            first = &earlier_of(first, g_.ops[i]);
                        }
    }

    /// The messages to this rank that it must receive before that of `v`, in the order in which they are
    /// computed: those that the same task of the sender sends before, and those of other senders that the
    /// same task here, or another phase, reads. Otherwise a sender that waits until it may overwrite what it
    /// sends could wait for a receiver that waits for a later message.
    std::vector<ValueId> due_before(ValueId v)
    {
        if (in_epilogue({v, me_}))
            return {};
        if (inbox_.empty())
            fill_inbox();
        const auto own = std::ranges::find(inbox_, v);
        const auto sender = [&](ValueId m) { return task_of(g_[g_[m].producer]); };
        const auto reader = [&](ValueId m) {
            const Op* const first = reader_of({m, me_});
            return first ? task_of(*first) : std::pair<int, Phase>{};
        };
        std::vector<ValueId> due;
        for (auto at = inbox_.begin(); at != own; ++at)
            if (sender(*at) == sender(*own) || reader(*at) == reader(*own) ||
                reader(*at).second != reader(*own).second)
                due.push_back(*at);
        return due;
    }

    /// The op whose stage has its turn first in a microbatch. What an op of phase `weights` reads is received
    /// in the backward pass of its stage, even if another stage's op needs a later message before.
    const Op& earlier_of(const Op* own, const Op& other) const
    {
        const auto turn = [&](const Op& op) {
            const int stage = task_of(op).first;
            return op.phase == Phase::forward ? std::pair(0, stage) : std::pair(1, -stage);
        };
        return own && turn(*own) <= turn(other) ? *own : other;
    }

    void fill_inbox()
    {
        for (const Crossing& crossing : crossings_)
            if (crossing.to == me_ && !in_epilogue(crossing))
                inbox_.push_back(crossing.value);
        std::ranges::sort(inbox_, {}, [&](ValueId m) { return g_[m].producer.index(); });
    }

    bool crosses(ValueId v, int to) const { return crossings_.count({v, to}) > 0; }

    /// Both sides number the messages from one rank to another in the order of the global graph.
    i64 tag_of(const Crossing& crossing) const
    {
        i64 tag = 0;
        const int from = home(g_[g_[crossing.value].producer]);
        for (const Crossing& entry : crossings_) {
            if (entry == crossing)
                return tag;
            if (entry.to == crossing.to && home(g_[g_[entry.value].producer]) == from)
                ++tag;
        }
        return tag;
    }

    void enter(Builder& b, const Op& op, Region region) const
    {
        b.where = {region, region == Region::epilogue ? Phase::update : op.phase, op.block, op.scope};
    }

    /// Before `reader`, in its part of the step. The message is named after its producer.
    ValueId receive(Builder& b, ValueId v, const Op& reader)
    {
        const Op& producer = g_[g_[v].producer];
        enter(b, reader, in_epilogue({v, me_}) ? reader.region : Region::microbatch);
        b.where.scope = producer.scope;
        if (b.where.phase == Phase::weights) // its order may differ from that of the senders
            b.where.phase = producer.phase;
        const ValueId here = b.receive(c_.axis, home(producer), tag_of({v, me_}), g_[v].type, g_[v].name);
        b.graph()[here].sharding = g_[v].sharding;
        return here;
    }

    void send(Builder& b, const Crossing& crossing, ValueId here, Region region)
    {
        const Op& producer = g_[g_[crossing.value].producer];
        enter(b, producer, region);
        // The receiver keeps a result of a forward pass until its own backward pass, before that of the
        // sender.
        const Op* reader =
            region == Region::microbatch && producer.phase != Phase::forward ? reader_of(crossing) : nullptr;
        const bool skips = reader && task_of(*reader).first != task_of(producer).first - 1;
        b.send(c_.axis, crossing.to, tag_of(crossing), here,
               skips ? std::optional<i64>(task_of(*reader).first) : std::nullopt);
    }

    void send_accumulated(Builder& b, const std::vector<ValueId>& local)
    {
        for (const Crossing& crossing : crossings_)
            if (const Op& producer = g_[g_[crossing.value].producer];
                in_epilogue(crossing) && producer.region == Region::microbatch && home(producer) == me_)
                send(b, crossing, local[crossing.value.index()], Region::epilogue);
    }

    /// The content of an accumulator is sent later, when it is final.
    void send_now(Builder& b, ValueId v, ValueId here, Region region)
    {
        for (auto at = crossings_.lower_bound({v, 0}); at != crossings_.end() && at->value == v; ++at)
            if (region == Region::epilogue || !in_epilogue(*at))
                send(b, *at, here, region);
    }

    const Graph& g_;
    const StageConfig c_;
    int ranks_;
    int me_ = 0;                            ///< the rank of of()
    std::vector<std::set<int>> runs_;       ///< by op: the ranks that run it
    std::map<ValueId, std::set<int>> held_; ///< for values that no op computes: the ranks that hold them
    std::set<Crossing> crossings_;
    std::map<Crossing, const Op*> readers_;
    std::vector<ValueId> inbox_; ///< messages within a microbatch, in the order of the ops that compute them
    std::map<ValueId, int> contributor_;
    std::vector<bool> home_; ///< by op: has_home
};

StageGraphs::StageGraphs(const Graph& graph, StageConfig config)
    : impl_(std::make_unique<Impl>(graph, std::move(config)))
{
}
StageGraphs::StageGraphs(StageGraphs&&) noexcept = default;
StageGraphs::~StageGraphs() = default;

Graph StageGraphs::of(int rank) { return impl_->of(rank); }

std::map<std::string, std::vector<int>> StageGraphs::holders() const
{
    std::map<std::string, std::vector<int>> ranks;
    for (const auto& [value, held] : impl_->held())
        if (const Value& v = impl_->graph()[value]; v.role == Role::parameter || v.role == Role::state)
            ranks[v.name].assign(held.begin(), held.end());
    return ranks;
}

} // namespace trivium
