#include "passes/sharding/overlap_gathers.hpp"

#include "passes/sharding/gathered_ops.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace trivium {

namespace {

/// The place of a factor among the dimensions of a tensor; as many as it has dimensions if it lacks it.
std::size_t place_in(const FactorList& dims, int factor)
{
    return static_cast<std::size_t>(std::ranges::find(dims, factor) - dims.begin());
}

/// The longest factor that each result has, and each operand that is gathered, and that is sharded freely;
/// the first of equal ones. Nothing if there is none, or its parts need attributes of their own.
std::optional<int> factor_to_divide(const FactorRule& rule, const OpInfo& row, const GatheredOp& op)
{
    std::optional<int> best;
    for (int f = 0; f < std::ssize(rule.factors) && !row.localize; ++f) {
        const auto has = [&](const FactorList& dims) { return place_in(dims, f) < dims.size(); };
        const auto composed = [&](const FactorList& dims) {
            return std::ranges::any_of(dims, [&](int dim) { return rule[dim].composed(); });
        };
        if (rule[f].kind == FactorKind::parallel && rule[f].size > 1 &&
            std::ranges::all_of(rule.results, has) && std::ranges::none_of(rule.operands, composed) &&
            std::ranges::all_of(op.gathered, [&](const auto& g) { return has(rule.operands[g.operand]); }) &&
            (!best || rule[f].size > rule[*best].size))
            best = f;
    }
    return best;
}

/// An op, and the factor along which it is divided.
struct PartedOp {
    GatheredOp op;
    FactorRule rule;
    int factor = 0;

    i64 extent() const { return rule[factor].size; }
};

std::map<std::size_t, PartedOp> parted_ops(const Graph& graph)
{
    std::map<std::size_t, PartedOp> made; // by op
    for (auto& [i, op] : gathered_ops(graph)) {
        const FactorRule rule = rule_of(graph, graph.ops[i]);
        if (const std::optional<int> factor = factor_to_divide(rule, info(graph.ops[i]), op))
            made.emplace(i, PartedOp{op, rule, *factor});
    }
    return made;
}

class PartDivider {
public:
    /// Divides the ops of which `parts` has a number, or into fewer if the factor is shorter.
    PartDivider(const Graph& graph, const std::map<std::size_t, PartedOp>& parted,
                const std::map<std::size_t, i64>& parts)
        : from_(graph)
    {
        std::map<std::size_t, GatheredOp> ops;
        for (const auto& [i, count] : parts)
            ops.emplace(i, parted.at(i).op);
        made_ = without_gathers(from_, ops, [&](Builder& b, std::size_t i, const GatheredOp&) {
            const PartedOp& d = parted.at(i);
            const std::size_t begin = b.graph().ops.size();
            divide(b, from_.ops[i], d, std::min(parts.at(i), d.extent()));
            for (std::size_t k = begin; k < b.graph().ops.size(); ++k)
                ops_[i].push_back(k);
        });
    }

    const Graph& graph() const { return made_; }
    /// What op `i` became.
    const std::vector<std::size_t>& ops_of(std::size_t i) const { return ops_.at(i); }

private:
    void divide(Builder& b, const Op& op, const PartedOp& d, i64 count)
    {
        Graph& g = b.graph();
        const std::size_t begin = g.ops.size();
        std::vector<std::vector<ValueId>> results(op.results.size()); // by part
        std::vector<ValueId> next = gathered(b, d, count, 0);
        for (i64 part = 0; part < count; ++part) {
            std::vector<ValueId> operands = op.operands;
            for (std::size_t i = 0; i < operands.size(); ++i)
                if (const std::size_t dim = place_in(d.rule.operands[i], d.factor);
                    dim < d.rule.operands[i].size() &&
                    std::ranges::find(d.op.gathered, i, &GatheredOp::Gathered::operand) ==
                        d.op.gathered.end())
                    operands[i] = b.slice_of(operands[i], dim, part_of(d.extent(), count, part));
            for (std::size_t k = 0; k < next.size(); ++k)
                operands[d.op.gathered[k].operand] = next[k];
            if (part + 1 < count)
                next = gathered(b, d, count, part + 1);
            std::vector<std::string> names;
            for (const ValueId v : op.results)
                names.push_back(from_[v].name + ".part");
            std::vector<ValueId> made = b.op(op.kind, operands, op.attrs, names);
            for (const GatheredOp::Summed& each : d.op.summed)
                made[each.result] = summed(b, d.op, each, made[each.result]);
            for (std::size_t r = 0; r < made.size(); ++r)
                results[r].push_back(made[r]);
        }
        for (std::size_t r = 0; r < results.size(); ++r) {
            const auto sum = std::ranges::find(d.op.summed, r, &GatheredOp::Summed::result);
            let_be(g, begin, b.joined(results[r], place_in(d.rule.results[r], d.factor)),
                   sum == d.op.summed.end() ? op.results[r] : sum->own);
        }
    }

    /// A part of what the op gathers: once for all ops that read it.
    std::vector<ValueId> gathered(Builder& b, const PartedOp& d, i64 count, i64 part)
    {
        std::vector<ValueId> made;
        for (std::size_t k = 0; k < d.op.gathered.size(); ++k) {
            const GatheredOp::Gathered& each = d.op.gathered[k];
            const std::size_t dim = place_in(d.rule.operands[each.operand], d.factor);
            ValueId& known = parts_[{d.op.gathers[k], dim, count, part}];
            if (!known)
                known = b.all_gather(b.slice_of(each.own, dim, part_of(d.extent(), count, part)), d.op.axis,
                                     each.dim, d.op.extent);
            made.push_back(known);
        }
        return made;
    }

    ValueId summed(Builder& b, const GatheredOp& op, const GatheredOp::Summed& each, ValueId x) const
    {
        x = b.reduce_scatter(x, op.axis, each.dim, op.block(op.rank).size);
        for (const std::size_t i : each.reductions) // of its own block only
            x = b.all_reduce(x, *from_.ops[i].attrs.axis, *from_.ops[i].attrs.combine);
        return x;
    }

    const Graph& from_;
    Graph made_;
    std::map<std::size_t, std::vector<std::size_t>> ops_;
    std::map<std::tuple<std::size_t, std::size_t, i64, i64>, ValueId>
        parts_; ///< by gather, dimension, number of parts and part
};

/// When the last of these ops ends, if one of them computes and one communicates at a time, in their order.
Seconds end_of(const Graph& graph, const std::vector<std::size_t>& ops, const std::vector<Seconds>& seconds)
{
    std::map<ValueId, Seconds> made;
    Seconds computes = 0, communicates = 0;
    for (const std::size_t i : ops) {
        const Op& op = graph.ops[i];
        Seconds& now = info(op).communicates ? communicates : computes;
        for (const ValueId v : op.operands)
            if (const auto at = made.find(v); at != made.end())
                now = std::max(now, at->second);
        now += seconds[i];
        for (const ValueId v : op.results)
            made[v] = now;
    }
    return std::max(computes, communicates);
}

/// Ops that read the same gathers, which are divided alike.
std::vector<std::vector<std::size_t>> sets_of(const std::map<std::size_t, PartedOp>& parted)
{
    std::map<std::size_t, std::size_t> set_of; // by gather
    std::vector<std::vector<std::size_t>> sets;
    for (const auto& [i, d] : parted) {
        const auto [at, added] = set_of.try_emplace(d.op.gathers[0], sets.size());
        if (added)
            sets.emplace_back();
        sets[at->second].push_back(i);
    }
    return sets;
}

} // namespace

GatherParts parts_of_gathers(const Graph& graph, const OverlapSeconds& seconds)
{
    const std::map<std::size_t, PartedOp> parted = parted_ops(graph);
    GatherParts parts;
    i64 longest = 1;
    for (const auto& [i, d] : parted) {
        longest = std::max(longest, d.extent());
        if (!seconds)
            parts[graph[graph.ops[i].results[0]].name] = d.extent();
    }
    if (!seconds || longest == 1)
        return parts;
    const std::vector<std::vector<std::size_t>> sets = sets_of(parted);
    std::vector<Seconds> ends; // by set
    const std::vector<Seconds> before = seconds(graph);
    for (const std::vector<std::size_t>& set : sets) {
        std::vector<std::size_t> ops = set;
        for (const std::size_t i : set)
            for (const auto* others : {&parted.at(i).op.gathers, &parted.at(i).op.reductions})
                ops.insert(ops.end(), others->begin(), others->end());
        std::ranges::sort(ops);
        ops.erase(std::ranges::unique(ops).begin(), ops.end());
        ends.push_back(end_of(graph, ops, before));
    }
    std::vector<i64> counts{longest};
    for (i64 count = 2; count < longest; count *= 2)
        counts.push_back(count);
    for (const i64 count : counts) {
        std::map<std::size_t, i64> all;
        for (const auto& [i, d] : parted)
            all[i] = count;
        const PartDivider divider(graph, parted, all);
        const std::vector<Seconds> after = seconds(divider.graph());
        for (std::size_t s = 0; s < sets.size(); ++s) {
            std::vector<std::size_t> ops;
            for (const std::size_t i : sets[s])
                ops.insert(ops.end(), divider.ops_of(i).begin(), divider.ops_of(i).end());
            const Seconds end = end_of(divider.graph(), ops, after);
            if (end >= ends[s])
                continue;
            ends[s] = end;
            for (const std::size_t i : sets[s])
                parts[graph[graph.ops[i].results[0]].name] = std::min(count, parted.at(i).extent());
        }
    }
    return parts;
}

Graph overlap_gathers(Graph graph, const GatherParts& parts)
{
    const std::map<std::size_t, PartedOp> parted = parted_ops(graph);
    std::map<std::size_t, i64> divided;
    for (const auto& [i, d] : parted)
        if (const auto at = parts.find(graph[graph.ops[i].results[0]].name); at != parts.end())
            divided.emplace(i, at->second);
    if (divided.empty())
        return graph;
    return simplify(PartDivider(graph, parted, divided).graph());
}

} // namespace trivium
