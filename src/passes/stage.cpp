#include "passes/stage.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace trivium {

namespace {

/// For each stage, the ops that it runs; beside what crosses between stages.
class Cutter {
public:
    Cutter(const Graph& graph, const StageConfig& config)
        : g_(graph), c_(config), stages_(config.stage_of_block.empty() ? 1 : config.stage_of_block.back() + 1)
    {
        // Values of the epilogue that a stage needs are known only once it is known which parameters each stage holds.
        for (int s = 0; s < stages_; ++s)
            pull_microbatch(s);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::epilogue)
                pull_update(OpId(i));
        for (int s = 0; s < stages_; ++s)
            for (const ValueId v : g_.outputs)
                pull(v, s);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (info(g_.ops[i]).contributes && !runs_[i].empty())
                for (const ValueId v : g_.ops[i].operands)
                    pull(v, contributor(v));
    }

    Graph stage_graph()
    {
        const int me = c_.stage;
        Graph out;
        out.name = g_.name;
        out.mesh = g_.mesh;
        Builder b(out);
        std::vector<ValueId> local(g_.values.size());
        const auto use = [&](ValueId v) -> ValueId {
            if (!local[v.index()]) {
                TRV_CHECK(!g_[v].producer, "%", g_[v].name, " is not of stage ", me);
                Value copy = g_[v];
                out.values.push_back(std::move(copy));
                local[v.index()] = ValueId(out.values.size() - 1);
            }
            return local[v.index()];
        };
        // In the order of the global graph, so that all ranks of a stage alike.
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            if (!g_.values[i].producer && used_here(ValueId(i)))
                use(ValueId(i));
        bool sent = false;
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            const Op& op = g_.ops[i];
            // Accumulated values are final only after the last microbatch.
            if (op.region == Region::epilogue && !std::exchange(sent, true))
                send_accumulated(b, local);
            if (runs_[i].count(me)) {
                for (const ValueId v : op.operands)
                    if (!local[v.index()] && crosses(v, me) && wants(op, v))
                        local[v.index()] = receive(b, v, op.region);
                Op copy = op;
                copy.operands.clear();
                std::string places;
                for (std::size_t o = 0; o < op.operands.size(); ++o)
                    if (wants(op, op.operands[o])) {
                        copy.operands.push_back(use(op.operands[o]));
                        places += str(places.empty() ? "" : " ", o);
                    }
                if (info(op).contributes)
                    for (auto& [name, value] : copy.attrs)
                        if (name == "at")
                            value = places;
                for (ValueId& r : copy.results) {
                    Value made = g_[r];
                    made.producer = OpId(out.ops.size());
                    out.values.push_back(std::move(made));
                    local[r.index()] = ValueId(out.values.size() - 1);
                    r = local[r.index()];
                }
                out.ops.push_back(std::move(copy));
            }
            if (has_home(op) && stage_of(op) == me)
                for (const ValueId v : op.results)
                    send_now(b, v, local[v.index()], op.region);
        }
        if (!sent)
            send_accumulated(b, local);
        for (const Carry& carry : g_.carries)
            if (local[carry.out.index()] && g_[carry.out].producer && runs_[g_[carry.out].producer.index()].count(me))
                out.carries.push_back({local[carry.in.index()], local[carry.out.index()]});
        for (const ValueId v : g_.outputs) {
            if (!local[v.index()] && crosses(v, me))
                local[v.index()] = receive(b, v, Region::epilogue);
            out.outputs.push_back(use(v));
        }
        sort_regions(out);
        return out;
    }

    const std::map<ValueId, std::set<int>>& held() const { return held_; }

private:
    /// A value that stage `to` needs of another; `final`: after the last microbatch.
    struct Crossing {
        ValueId value;
        int to = 0;
        auto operator<=>(const Crossing&) const = default;
    };

    int stage_of(const Op& op) const { return c_.stage_of_block[static_cast<std::size_t>(op.block)]; }
    bool in_epilogue(const Crossing& c) const { return g_[c.value].lifetime != Lifetime::microbatch; }

    /// Whether the op runs on one stage alone, which sends the results on: in the microbatch, and where a value of it is
    /// only placed anew (a gradient that is reduced over ranks before it travels).
    bool has_home(const Op& op) const
    {
        if (op.region == Region::microbatch)
            return true;
        const OpId producer = op.operands.empty() ? OpId{} : g_[op.operands[0]].producer;
        return info(op).placement && op.region == Region::epilogue && producer && has_home(g_[producer]) &&
               stage_of(g_[producer]) == stage_of(op);
    }

    void pull_microbatch(int stage)
    {
        runs_.resize(g_.ops.size());
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::microbatch && stage_of(g_.ops[i]) == stage) {
                runs_[i].insert(stage);
                for (const ValueId v : g_.ops[i].operands)
                    pull(v, stage);
            }
    }

    /// Makes `v` available on `stage`.
    void pull(ValueId v, int stage)
    {
        if (!g_[v].producer) {
            held_[v].insert(stage);
            return;
        }
        const std::size_t i = g_[v].producer.index();
        const Op& op = g_.ops[i];
        if (has_home(op) && stage_of(op) != stage) {
            channels_.emplace(Crossing{v, stage}, 0);
            stage = stage_of(op);
        }
        if (op.region == Region::microbatch)
            return;
        if (!runs_[i].insert(stage).second || info(op).contributes)
            return;
        for (const ValueId operand : op.operands)
            pull(operand, stage);
    }

    /// An update in place runs wherever what it updates is held.
    void pull_update(OpId id)
    {
        const Op& op = g_[id];
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (const ValueId into = aliased_operand(op, r); into && held_.count(into))
                for (const int stage : std::set<int>(held_[into]))
                    if (runs_[id.index()].insert(stage).second)
                        for (const ValueId v : op.operands)
                            pull(v, stage);
    }

    /// Stages that have `v` without more ado.
    std::set<int> available(ValueId v)
    {
        if (!g_[v].producer)
            return held_[v];
        const Op& op = g_[g_[v].producer];
        if (has_home(op))
            return {stage_of(op)};
        if (!runs_[g_[v].producer.index()].empty() && !info(op).contributes)
            return runs_[g_[v].producer.index()];
        std::set<int> all;
        for (int s = 0; s < stages_; ++s)
            all.insert(s);
        for (const ValueId operand : op.operands)
            std::erase_if(all, [&, there = available(operand)](int s) { return !there.count(s); });
        return all;
    }

    /// The stage whose copy of `v` counts where each counts once.
    int contributor(ValueId v)
    {
        const auto [at, added] = contributor_.try_emplace(v, 0);
        if (added)
            if (const std::set<int> stages = available(v); !stages.empty())
                at->second = *stages.begin();
        return at->second;
    }

    bool wants(const Op& op, ValueId v) { return !info(op).contributes || contributor(v) == c_.stage; }

    bool used_here(ValueId v)
    {
        const auto at = held_.find(v);
        return at != held_.end() && at->second.count(c_.stage) > 0;
    }

    bool crosses(ValueId v, int to) const { return channels_.count({v, to}) > 0; }

    /// Both sides number what goes from one stage to another in the order of the global graph.
    i64 channel_of(const Crossing& wanted) const
    {
        i64 channel = 0;
        const int from = stage_of(g_[g_[wanted.value].producer]);
        for (const auto& entry : channels_) {
            if (entry.first == wanted)
                return channel;
            if (entry.first.to == wanted.to && stage_of(g_[g_[entry.first.value].producer]) == from)
                ++channel;
        }
        return channel;
    }

    void enter(Builder& b, const Op& op, Region region) const
    {
        b.where = {region, region == Region::epilogue ? Phase::update : op.phase, op.block, op.scope};
    }

    ValueId receive(Builder& b, ValueId v, Region region)
    {
        const Op& producer = g_[g_[v].producer];
        enter(b, producer, in_epilogue({v, c_.stage}) ? region : Region::microbatch);
        const ValueId here = b.receive(c_.axis, stage_of(producer), channel_of({v, c_.stage}), g_[v].type, g_[v].name);
        b.graph()[here].sharding = g_[v].sharding;
        return here;
    }

    void send(Builder& b, const Crossing& crossing, ValueId here, Region region)
    {
        enter(b, g_[g_[crossing.value].producer], region);
        b.send(c_.axis, crossing.to, channel_of(crossing), here);
    }

    void send_accumulated(Builder& b, const std::vector<ValueId>& local)
    {
        for (const auto& [key, channel] : channels_)
            if (const Op& producer = g_[g_[key.value].producer]; in_epilogue(key) && producer.region == Region::microbatch && stage_of(producer) == c_.stage)
                send(b, key, local[key.value.index()], Region::epilogue);
    }

    /// What an accumulator holds goes later, when it is final.
    void send_now(Builder& b, ValueId v, ValueId here, Region region)
    {
        for (int to = 0; to < stages_; ++to)
            if (const Crossing crossing{v, to}; channels_.count(crossing) && (region == Region::epilogue || !in_epilogue(crossing)))
                send(b, crossing, here, region);
    }

    const Graph& g_;
    const StageConfig& c_;
    int stages_;
    std::vector<std::set<int>> runs_;        ///< by op: the stages that run it
    std::map<ValueId, std::set<int>> held_;  ///< values that no op computes: the stages that have them
    std::map<Crossing, int> channels_;
    std::map<ValueId, int> contributor_;
};

} // namespace

Graph cut_stage(const Graph& graph, const StageConfig& config) { return Cutter(graph, config).stage_graph(); }

std::map<std::string, std::vector<int>> stages_holding(const Graph& graph, const std::vector<int>& stage_of_block)
{
    std::map<std::string, std::vector<int>> stages;
    const StageConfig config{stage_of_block};
    const Cutter cutter(graph, config);
    for (const auto& [value, held] : cutter.held())
        if (graph[value].role == Role::parameter || graph[value].role == Role::state)
            stages[graph[value].name].assign(held.begin(), held.end());
    return stages;
}

std::vector<int> balance_stages(const Graph& graph, i64 stages)
{
    std::vector<double> cost;
    for (const Op& op : graph.ops) {
        cost.resize(std::max(cost.size(), static_cast<std::size_t>(op.block) + 1), 0);
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            cost[static_cast<std::size_t>(op.block)] += flops_of(graph, op) + 8 * static_cast<double>(bytes_of(graph, op));
    }
    const auto blocks = static_cast<i64>(cost.size());
    if (stages > blocks)
        throw UserError({"parallel.pipeline", str(stages, " stages for a model of ", blocks, " blocks"),
                         str(blocks - 2, " layers, and a block before and behind them"),
                         str("set parallel.pipeline to ", blocks, " or less")});
    // best[k][n]: the least cost of the costliest of k stages over the first n blocks; `from` its last stage's begin.
    const auto s = static_cast<std::size_t>(stages), n = cost.size();
    std::vector<double> sum(n + 1, 0);
    for (std::size_t i = 0; i < n; ++i)
        sum[i + 1] = sum[i] + cost[i];
    std::vector<std::vector<double>> best(s + 1, std::vector<double>(n + 1, 0));
    std::vector<std::vector<std::size_t>> from(s + 1, std::vector<std::size_t>(n + 1, 0));
    for (std::size_t end = 1; end <= n; ++end)
        best[1][end] = sum[end];
    for (std::size_t k = 2; k <= s; ++k)
        for (std::size_t end = k; end <= n; ++end) {
            best[k][end] = -1;
            for (std::size_t begin = k - 1; begin < end; ++begin) {
                const double worst = std::max(best[k - 1][begin], sum[end] - sum[begin]);
                if (best[k][end] < 0 || worst < best[k][end]) {
                    best[k][end] = worst;
                    from[k][end] = begin;
                }
            }
        }
    std::vector<int> stage_of(n);
    for (std::size_t k = s, end = n; k > 0; end = from[k][end], --k)
        std::fill(stage_of.begin() + static_cast<std::ptrdiff_t>(from[k][end]), stage_of.begin() + static_cast<std::ptrdiff_t>(end),
                  static_cast<int>(k - 1));
    return stage_of;
}

} // namespace trivium
