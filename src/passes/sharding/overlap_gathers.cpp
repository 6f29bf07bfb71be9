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
    explicit PartDivider(const Graph& graph) : from_(graph) {}

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

private:
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
            x = b.all_reduce(x, *from_.ops[i].attrs->axis, *from_.ops[i].attrs->combine);
        return x;
    }

    const Graph& from_;
    std::map<std::tuple<std::size_t, std::size_t, i64, i64>, ValueId>
        parts_; ///< by gather, dimension, number of parts and part
};

/// With these ops in as many parts.
Graph divided(const Graph& graph, const std::map<std::size_t, PartedOp>& parted,
              const std::map<std::size_t, i64>& parts)
{
    std::map<std::size_t, GatheredOp> ops;
    for (const auto& [i, count] : parts)
        ops.emplace(i, parted.at(i).op);
    PartDivider divider(graph);
    return without_gathers(graph, ops, [&](Builder& b, std::size_t i, const GatheredOp&) {
        divider.divide(b, graph.ops[i], parted.at(i), parts.at(i));
    });
}

/// How a microbatch runs: what computes one after the other, and what travels along an axis.
struct Clock {
    const OverlapSeconds& seconds;
    bool waits = false; ///< parts_of_gathers()
};

Seconds length_of(const Graph& graph, const Clock& clock)
{
    const std::vector<Seconds> each = clock.seconds(graph);
    Seconds computes = 0;
    std::map<std::string, Seconds> travels; // by axis
    std::vector<Seconds> made(graph.values.size(), 0);
    Seconds end = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        if (op.region != Region::microbatch)
            continue;
        Seconds& now = info(op).communicates ? travels[*op.attrs->axis] : computes;
        if (clock.waits)
            now = std::max(now, computes);
        for (const ValueId v : op.operands)
            now = std::max(now, made[v.index()]);
        now += each[i];
        for (const ValueId v : op.results)
            made[v.index()] = now;
        end = std::max(end, now);
    }
    return end;
}

/// The number of parts of each op with which a microbatch is shortest, one number in each phase.
std::map<std::size_t, i64> shortest(const Graph& graph, const std::map<std::size_t, PartedOp>& parted,
                                    const Clock& clock)
{
    std::map<std::size_t, i64> best;
    std::map<Phase, i64> longest; // extent
    for (const auto& [i, d] : parted) {
        i64& extent = longest[graph.ops[i].phase];
        extent = std::max(extent, d.extent());
    }
    Seconds length = parted.empty() ? 0 : length_of(graph, clock);
    for (const auto& [phase, most] : longest) {
        const std::map<std::size_t, i64> others = best;
        for (i64 count = 2; count < 2 * most; count *= 2) {
            std::map<std::size_t, i64> tried = others;
            for (const auto& [i, d] : parted)
                if (graph.ops[i].phase == phase)
                    tried[i] = std::min(count, d.extent());
            const Seconds made = length_of(divided(graph, parted, tried), clock);
            if (made < length) {
                length = made;
                best = std::move(tried);
            }
        }
    }
    return best;
}

} // namespace

GatherParts parts_of_gathers(const Graph& graph, const OverlapSeconds& seconds, bool waits)
{
    const std::map<std::size_t, PartedOp> parted = parted_ops(graph);
    std::map<std::size_t, i64> parts;
    if (seconds)
        parts = shortest(graph, parted, {seconds, waits});
    else
        for (const auto& [i, d] : parted)
            parts[i] = d.extent();
    GatherParts named;
    for (const auto& [i, count] : parts)
        named[graph[graph.ops[i].results[0]].name] = count;
    return named;
}

Graph overlap_gathers(Graph graph, const GatherParts& parts)
{
    const std::map<std::size_t, PartedOp> parted = parted_ops(graph);
    std::map<std::size_t, i64> counts;
    for (const auto& [i, d] : parted)
        if (const auto at = parts.find(graph[graph.ops[i].results[0]].name); at != parts.end())
            counts.emplace(i, std::min(at->second, d.extent()));
    if (counts.empty())
        return graph;
    return simplify(divided(graph, parted, counts));
}

} // namespace trivium
