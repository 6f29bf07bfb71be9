#include "passes/sharding/ring.hpp"

#include "ir/builder.hpp"
#include "ir/collectives.hpp"
#include "passes/sharding/box_moves.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace trivium {

namespace {

/// An op that is computed in steps, and the collectives around it.
struct Circulation {
    struct Gathered {
        std::size_t operand = 0, dim = 0;
        ValueId own; ///< the rank's block
    };
    struct Summed {
        std::size_t result = 0, dim = 0;
        std::vector<std::size_t> reductions; ///< ops: sums over other axes, before the one over `axis`
        ValueId own;                         ///< the rank's block of the sum
    };
    std::string axis;
    i64 extent = 0, ranks = 0, rank = 0; ///< of the factor; of the group along `axis`, and in it
    std::vector<Gathered> gathered;
    std::vector<Summed> summed;
    std::vector<std::size_t> gathers, reductions; ///< ops

    IndexRange block(i64 of) const { return part_of(extent, ranks, of); }
};

bool in_one_place(const Graph& g, const Op& a, const Op& b)
{
    return a.region == b.region && a.phase == b.phase && stage_of(g, a) == stage_of(g, b);
}

/// The dimension that a collective of one tensor gathers or scatters, if its result there is `larger` than
/// its operand.
std::optional<std::size_t> changed_dim(const Graph& g, const Op& op, bool larger)
{
    if (!info(op).communicates || !op.attrs.dim || op.operands.size() != 1 || op.attrs.combine)
        return {};
    const auto dim = static_cast<std::size_t>(op.attrs.dim->front());
    const i64 from = g[op.operands[0]].type.shape[dim], to = g[op.results[0]].type.shape[dim];
    return (larger ? from < to : to < from) ? std::optional(dim) : std::nullopt;
}

class RingMatcher {
public:
    explicit RingMatcher(const Graph& graph) : g_(graph), readers_(graph.values.size())
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            for (const ValueId v : g_.ops[i].operands)
                readers_[v.index()].push_back(i);
        for (const ValueId v : g_.outputs)
            readers_[v.index()].push_back(g_.ops.size());
        for (const Carry& carry : g_.carries)
            readers_[carry.out.index()].push_back(g_.ops.size());
    }

    /// How op `i` is divided, if ranks share its factor and its own factor alike.
    std::optional<Circulation> division_of(std::size_t i) const
    {
        const Op& op = g_.ops[i];
        if (!info(op).blocks || op.attrs.lists.find(Attr::begin))
            return {};
        const Blocks& blocks = *info(op).blocks;
        const FactorRule rule = rule_of(g_, op);
        const int factor = rule.find(blocks.factor), own = rule.find(blocks.own);
        Circulation made;
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
        if (op.attrs.offset_of(blocks.own) != part.begin || rule[own].size != part.size)
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
    bool is_needed_by(std::size_t gather, const std::map<std::size_t, Circulation>& ops) const
    {
        return std::ranges::all_of(readers_[g_.ops[gather].results[0].index()],
                                   [&](std::size_t reader) { return ops.contains(reader); });
    }

private:
    bool gather(Circulation& made, const Op& op, std::size_t operand, std::size_t dim) const
    {
        const OpId producer = g_[op.operands[operand]].producer;
        if (!producer || !in_one_place(g_, g_[producer], op) || changed_dim(g_, g_[producer], true) != dim)
            return false;
        const Op& gather = g_[producer];
        if (made.gathered.empty()) {
            made.axis = *gather.attrs.axis;
            const std::vector<i64> group = g_.mesh.group(g_.at, {made.axis});
            made.ranks = static_cast<i64>(group.size());
            made.rank = std::ranges::find(group, g_.mesh.rank(g_.at)) - group.begin();
        }
        made.gathered.push_back({operand, dim, gather.operands[0]});
        made.gathers.push_back(producer.index());
        return *gather.attrs.axis == made.axis;
    }

    bool sum(Circulation& made, const Op& op, std::size_t result, std::size_t dim) const
    {
        Circulation::Summed summed{result, dim, {}, {}};
        for (ValueId v = op.results[result]; !summed.own;) {
            const std::vector<std::size_t>& readers = readers_[v.index()];
            if (readers.size() != 1 || readers[0] == g_.ops.size() ||
                !in_one_place(g_, g_.ops[readers[0]], op))
                return false;
            const Op& reader = g_.ops[readers[0]];
            made.reductions.push_back(readers[0]);
            v = reader.results[0];
            if (changed_dim(g_, reader, false) == dim && *reader.attrs.axis == made.axis)
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

using RangeOfRank = std::function<IndexRange(i64 rank)>; ///< of a factor, by rank of a group

class RingDivider {
public:
    RingDivider(const Graph& graph, const std::map<std::size_t, Circulation>& divisions,
                const std::set<std::size_t>& replaced)
        : from_(graph), g_(graph), b_(g_)
    {
        g_.ops.clear();
        for (std::size_t i = 0; i < from_.ops.size(); ++i)
            if (const auto at = divisions.find(i); at != divisions.end())
                divide(from_.ops[i], at->second);
            else if (!replaced.contains(i))
                push(from_.ops[i]);
    }

    const Graph& graph() const { return g_; }

private:
    /// Results of a step along the factor, for the owners of their blocks.
    struct Parts {
        std::vector<ValueId> values;  ///< by Circulation::summed
        std::vector<IndexRange> read; ///< by rank: the part of another's block for which it has them
        i64 step = 0;
    };

    void push(const Op& op)
    {
        for (const ValueId v : op.results)
            g_[v].producer = OpId(g_.ops.size());
        g_.ops.push_back(op);
    }

    void divide(const Op& op, const Circulation& d)
    {
        b_.where = {op.region, op.phase, op.block, op.scope};
        const std::size_t begin = g_.ops.size();
        std::vector<ValueId> operands = op.operands;
        for (const Circulation::Gathered& each : d.gathered)
            operands[each.operand] = each.own;
        const DType wide = accumulator_of(from_[op.operands[0]].type.dtype);
        std::vector<ValueId> now = step(op, op.kind, operands, wide, d.block(d.rank).begin);
        std::vector<ValueId> sums;
        for (const Circulation::Summed& each : d.summed)
            sums.push_back(b_.cast_to(now[each.result], wide));
        Parts made;
        for (i64 i = 1; i < d.ranks; ++i) {
            Parts next{{}, reads(op, d, i), i};
            const IndexRange& own = next.read[static_cast<std::size_t>(d.rank)];
            if (std::ranges::all_of(next.read, [](const IndexRange& each) { return each.size == 0; }))
                continue;
            const std::size_t first = g_.ops.size();
            for (const Circulation::Gathered& each : d.gathered)
                operands[each.operand] = moved(
                    d, each.own, each.dim, [&](i64 rank) { return d.block(rank); },
                    [&](i64 rank) { return next.read[static_cast<std::size_t>(rank)]; });
            ++together_;
            for (std::size_t k = first; k < g_.ops.size(); ++k)
                g_.ops[k].together = together_;
            const std::vector<ValueId> received = sent_home(d, made);
            if (own.size > 0)
                now = step(op, info(op).blocks->step, operands_of_step(op, operands, now), {}, own.begin);
            for (std::size_t k = 0; k < d.summed.size(); ++k) // of no block: what it has received, as empty
                next.values.push_back(own.size > 0 ? now[d.summed[k].result]
                                                   : operands[d.gathered[k].operand]);
            add(d, made, received, sums);
            made = std::move(next);
        }
        add(d, made, sent_home(d, made), sums);
        for (std::size_t r = 0; r < now.size(); ++r)
            if (std::ranges::find(d.summed, r, &Circulation::Summed::result) == d.summed.end())
                rename(begin, b_.cast_to(now[r], from_[op.results[r]].type.dtype), op.results[r]);
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const Circulation::Summed& each = d.summed[k];
            ValueId sum = b_.cast_to(sums[k], from_[each.own].type.dtype);
            for (const std::size_t i : each.reductions)
                sum = b_.all_reduce(sum, *from_.ops[i].attrs.axis, *from_.ops[i].attrs.combine);
            rename(begin, sum, each.own);
        }
    }

    /// By rank: the part of the block of the rank `step` before it that it reads.
    std::vector<IndexRange> reads(const Op& op, const Circulation& d, i64 step) const
    {
        std::vector<IndexRange> made;
        for (i64 rank = 0; rank < d.ranks; ++rank)
            made.push_back(
                info(op).blocks->reads(from_, op, d.block(rank), d.block((rank - step + d.ranks) % d.ranks)));
        return made;
    }

    /// The op with a block from index `begin` on, whose result 0 has the type `wide`.
    std::vector<ValueId> step(const Op& op, OpKind kind, const std::vector<ValueId>& operands,
                              std::optional<DType> wide, i64 begin)
    {
        Attributes attrs = op.attrs;
        attrs.dtype = wide;
        attrs.lists.set(Attr::begin, {begin});
        std::vector<std::string> names;
        for (const ValueId v : op.results)
            names.push_back(from_[v].name + ".step");
        return b_.op(kind, operands, std::move(attrs), names);
    }

    /// From those of the op, with another block, and the results so far.
    std::vector<ValueId> operands_of_step(const Op& op, std::vector<ValueId> all,
                                          const std::vector<ValueId>& now) const
    {
        const OpInfo& row = info(op);
        std::vector<ValueId> optional;
        for (int i = 0; i < info(row.blocks->step).optional; ++i)
            if (const int at = optional_operand(from_, op, i); at >= 0)
                optional.push_back(all[static_cast<std::size_t>(at)]);
        all.resize((*row.rule)->operands.size() - static_cast<std::size_t>(row.optional));
        const FactorRule rule = rule_of(from_, op);
        for (std::size_t r = 0; r < now.size(); ++r)
            if (std::ranges::find(rule.results[r], rule.find(row.blocks->factor)) == rule.results[r].end())
                all.push_back(now[r]);
        all.insert(all.end(), optional.begin(), optional.end());
        return all;
    }

    /// The indices of `dim` that this rank needs, of those that ranks own.
    ValueId moved(const Circulation& d, ValueId x, std::size_t dim, const RangeOfRank& owned,
                  const RangeOfRank& needed)
    {
        const auto boxes = [&](const RangeOfRank& of) {
            std::vector<Box> made;
            for (i64 rank = 0; rank < d.ranks; ++rank) {
                Box& box = made.emplace_back(Shape(g_[x].type.shape.size(), 0), g_[x].type.shape);
                box.offset[dim] = of(rank).begin;
                box.shape[dim] = of(rank).size;
            }
            return made;
        };
        const std::vector<Box> have = boxes(owned), need = boxes(needed);
        return b_.exchange(permutes(have, need) ? Builder::Exchange::permute : Builder::Exchange::halo, x,
                           d.axis, have, need, need[static_cast<std::size_t>(d.rank)].shape);
    }

    std::vector<ValueId> sent_home(const Circulation& d, const Parts& parts)
    {
        std::vector<ValueId> received;
        for (std::size_t k = 0; k < parts.values.size(); ++k)
            received.push_back(moved(
                d, parts.values[k], d.summed[k].dim,
                [&](i64 rank) { return parts.read[static_cast<std::size_t>(rank)]; },
                [&](i64 rank) {
                    return parts.read[static_cast<std::size_t>((rank + parts.step) % d.ranks)];
                }));
        return received;
    }

    void add(const Circulation& d, const Parts& parts, const std::vector<ValueId>& received,
             std::vector<ValueId>& sums)
    {
        for (std::size_t k = 0; k < received.size(); ++k) {
            const std::size_t dim = d.summed[k].dim;
            const IndexRange own = d.block(d.rank),
                             part = parts.read[static_cast<std::size_t>((d.rank + parts.step) % d.ranks)];
            if (part.size == 0)
                continue;
            Shape before(g_[received[k]].type.shape.size(), 0);
            before[dim] = part.begin - own.begin;
            sums[k] = b_.add_into(sums[k], b_.padded(received[k], before, g_[sums[k]].type.shape));
        }
    }

    /// Lets the value `v`, made by the ops from `begin` on, be `as` instead.
    void rename(std::size_t begin, ValueId v, ValueId as)
    {
        g_[as].producer = g_[v].producer;
        for (std::size_t i = begin; i < g_.ops.size(); ++i)
            for (auto* const values : {&g_.ops[i].operands, &g_.ops[i].results})
                std::ranges::replace(*values, v, as);
    }

    const Graph& from_;
    Graph g_;
    Builder b_;
    int together_ = 0; ///< Op::together of the last step
};

} // namespace

Graph ring(Graph graph)
{
    const RingMatcher matcher(graph);
    std::map<std::size_t, Circulation> divisions; // by op
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        if (std::optional<Circulation> division = matcher.division_of(i))
            divisions.emplace(i, *std::move(division));
    if (divisions.empty())
        return graph;
    std::set<std::size_t> replaced;
    for (const auto& [i, division] : divisions) {
        replaced.insert(division.reductions.begin(), division.reductions.end());
        for (const std::size_t gather : division.gathers)
            if (matcher.is_needed_by(gather, divisions))
                replaced.insert(gather);
    }
    return simplify(RingDivider(graph, divisions, replaced).graph());
}

} // namespace trivium
