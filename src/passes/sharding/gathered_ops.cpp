#include "passes/sharding/gathered_ops.hpp"

#include "ir/collectives.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace trivium {

namespace {

bool in_one_place(const Graph& g, const Op& a, const Op& b)
{
    return a.region == b.region && a.phase == b.phase && stage_of(g, a) == stage_of(g, b);
}

/// The dimension that a collective of one tensor gathers or scatters, if its result there is `larger` than
/// its operand.
std::optional<std::size_t> changed_dim(const Graph& g, const Op& op, bool larger)
{
    if (!info(op).communicates || !op.attrs->dim || op.operands.size() != 1 || op.attrs->combine)
        return {};
    const auto dim = static_cast<std::size_t>(op.attrs->dim->front());
    const i64 from = g[op.operands[0]].type.shape[dim], to = g[op.results[0]].type.shape[dim];
    return (larger ? from < to : to < from) ? std::optional(dim) : std::nullopt;
}

class Matcher {
public:
    explicit Matcher(const Graph& graph) : g_(graph), readers_(graph.values.size())
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            for (const ValueId v : g_.ops[i].operands)
                readers_[v.index()].push_back(i);
        for (const ValueId v : g_.outputs)
            readers_[v.index()].push_back(g_.ops.size());
        for (const Carry& carry : g_.carries)
            readers_[carry.out.index()].push_back(g_.ops.size());
    }

    /// Op `i`, if ranks share its factor and its own factor alike.
    std::optional<GatheredOp> match(std::size_t i) const
    {
        const Op& op = g_.ops[i];
        if (!info(op).blocks || op.attrs->lists.find(Attr::begin))
            return {};
        const Blocks& blocks = *info(op).blocks;
        const FactorRule rule = rule_of(g_, op);
        const int factor = rule.find(blocks.factor), own = rule.find(blocks.own);
        GatheredOp made;
        for (std::size_t o = 0; o < rule.operands.size(); ++o) {
            const auto at = std::ranges::find(rule.operands[o], factor);
            if (at != rule.operands[o].end() &&
                !gather(made, op, o, static_cast<std::size_t>(at - rule.operands[o].begin())))
                return {};
        }
        if (made.gathered.empty())
            return {};
        made.extent = rule[factor].size;
        const IndexRange part = made.block(made.rank);
        if (op.attrs->offset_of(blocks.own) != part.begin || rule[own].size != part.size)
            return {};
        for (std::size_t r = 0; r < rule.results.size(); ++r) {
            const auto at = std::ranges::find(rule.results[r], factor);
            if (at != rule.results[r].end() &&
                !sum(made, op, r, static_cast<std::size_t>(at - rule.results[r].begin())))
                return {};
        }
        return made;
    }

    /// Whether all readers of the gather are among `ops`.
    bool is_needed_by(std::size_t gather, const std::map<std::size_t, GatheredOp>& ops) const
    {
        return std::ranges::all_of(readers_[g_.ops[gather].results[0].index()],
                                   [&](std::size_t reader) { return ops.contains(reader); });
    }

private:
    bool gather(GatheredOp& made, const Op& op, std::size_t operand, std::size_t dim) const
    {
        const OpId producer = g_[op.operands[operand]].producer;
        if (!producer || !in_one_place(g_, g_[producer], op) || changed_dim(g_, g_[producer], true) != dim)
            return false;
        const Op& gather = g_[producer];
        if (made.gathered.empty()) {
            made.axis = *gather.attrs->axis;
            const std::vector<i64> group = g_.mesh.group(g_.at, {made.axis});
            made.ranks = static_cast<i64>(group.size());
            made.rank = std::ranges::find(group, g_.mesh.rank(g_.at)) - group.begin();
        }
        made.gathered.push_back({operand, dim, gather.operands[0]});
        made.gathers.push_back(producer.index());
        return *gather.attrs->axis == made.axis;
    }

    bool sum(GatheredOp& made, const Op& op, std::size_t result, std::size_t dim) const
    {
        GatheredOp::Summed summed{result, dim, {}, {}};
        for (ValueId v = op.results[result]; !summed.own;) {
            const std::vector<std::size_t>& readers = readers_[v.index()];
            if (readers.size() != 1 || readers[0] == g_.ops.size() ||
                !in_one_place(g_, g_.ops[readers[0]], op))
                return false;
            const Op& reader = g_.ops[readers[0]];
            made.reductions.push_back(readers[0]);
            v = reader.results[0];
            if (changed_dim(g_, reader, false) == dim && *reader.attrs->axis == made.axis)
                summed.own = v;
            else if (reduces_to_all(reader) && reader.operands.size() == 1)
                summed.reductions.push_back(readers[0]);
            else
                return false;
        }
        made.summed.push_back(std::move(summed));
        return true;
    }

    const Graph& g_;
    std::vector<std::vector<std::size_t>> readers_; ///< by value; the number of ops: the host or a carry
};

} // namespace

std::map<std::size_t, GatheredOp> gathered_ops(const Graph& graph)
{
    const Matcher matcher(graph);
    std::map<std::size_t, GatheredOp> ops;
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        if (std::optional<GatheredOp> op = matcher.match(i))
            ops.emplace(i, *std::move(op));
    return ops;
}

Graph without_gathers(const Graph& graph, const std::map<std::size_t, GatheredOp>& ops,
                      const std::function<void(Builder&, std::size_t op, const GatheredOp&)>& make)
{
    const Matcher matcher(graph);
    std::set<std::size_t> replaced;
    for (const auto& [i, op] : ops) {
        replaced.insert(op.reductions.begin(), op.reductions.end());
        for (const std::size_t gather : op.gathers)
            if (matcher.is_needed_by(gather, ops))
                replaced.insert(gather);
    }
    Graph made = graph.without_ops();
    Builder b(made);
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        if (const auto at = ops.find(i); at != ops.end()) {
            b.where = Builder::where_of(graph.ops[i]);
            make(b, i, at->second);
        } else if (!replaced.contains(i)) {
            for (const ValueId v : graph.ops[i].results)
                made[v].producer = OpId(made.ops.size());
            made.ops.push_back(graph.ops[i]);
        }
    return made;
}

void let_be(Graph& graph, std::size_t begin, ValueId v, ValueId as)
{
    graph[as].producer = graph[v].producer;
    for (std::size_t i = begin; i < graph.ops.size(); ++i)
        for (auto* const values : {&graph.ops[i].operands, &graph.ops[i].results})
            std::ranges::replace(*values, v, as);
}

} // namespace trivium
