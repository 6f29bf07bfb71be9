#include "passes/sharding/ring.hpp"

#include "passes/sharding/box_moves.hpp"
#include "passes/sharding/gathered_ops.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <optional>

namespace trivium {

namespace {

using RangeOfRank = std::function<IndexRange(i64 rank)>; ///< of a factor, by rank of a group

/// Appends the steps of one op.
class Steps {
public:
    /// `together`: Op::together of the last step.
    Steps(const Graph& from, const Op& op, const GatheredOp& gathered, Builder& builder, int& together)
        : from_(from), op_(op), d_(gathered), b_(builder), g_(builder.graph()), together_(together)
    {
    }

    void append()
    {
        const std::size_t begin = g_.ops.size();
        std::vector<ValueId> operands = op_.operands;
        for (const GatheredOp::Gathered& each : d_.gathered)
            operands[each.operand] = each.own;
        const DType wide = accumulator_of(from_[op_.operands[0]].type.dtype);
        std::vector<ValueId> now = step(op_.kind, operands, wide, d_.block(d_.rank).begin);
        std::vector<ValueId> sums;
        for (const GatheredOp::Summed& each : d_.summed)
            sums.push_back(b_.cast_to(now[each.result], wide));
        Parts made;
        for (i64 i = 1; i < d_.ranks; ++i) {
            Parts next{{}, reads(i), i};
            const IndexRange& own = next.read[static_cast<std::size_t>(d_.rank)];
            if (std::ranges::all_of(next.read, [](const IndexRange& each) { return each.size == 0; }))
                continue;
            const std::size_t first = g_.ops.size();
            for (const GatheredOp::Gathered& each : d_.gathered)
                operands[each.operand] = moved(
                    each.own, each.dim, [&](i64 rank) { return d_.block(rank); },
                    [&](i64 rank) { return next.read[static_cast<std::size_t>(rank)]; });
            ++together_;
            for (std::size_t k = first; k < g_.ops.size(); ++k)
                g_.ops[k].together = together_;
            const std::vector<ValueId> received = sent_home(made);
            if (own.size > 0)
                now = step(info(op_).blocks->step, operands_of_step(operands, now), {}, own.begin);
            for (std::size_t k = 0; k < d_.summed.size(); ++k) // of no block: what it has received, as empty
                next.values.push_back(own.size > 0 ? now[d_.summed[k].result]
                                                   : operands[d_.gathered[k].operand]);
            add(made, received, sums);
            made = std::move(next);
        }
        add(made, sent_home(made), sums);
        for (std::size_t r = 0; r < now.size(); ++r)
            if (!d_.sums(r))
                let_be(g_, begin, b_.cast_to(now[r], from_[op_.results[r]].type.dtype), op_.results[r]);
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const GatheredOp::Summed& each = d_.summed[k];
            ValueId sum = b_.cast_to(sums[k], from_[each.own].type.dtype);
            for (const std::size_t i : each.reductions)
                sum = b_.all_reduce(sum, *from_.ops[i].attrs->axis, *from_.ops[i].attrs->combine);
            let_be(g_, begin, sum, each.own);
        }
    }

private:
    /// Results of a step along the factor, for the owners of their blocks.
    struct Parts {
        std::vector<ValueId> values;  ///< by GatheredOp::summed
        std::vector<IndexRange> read; ///< by rank: the part of another's block for which it has them
        i64 step = 0;
    };

    /// By rank: the part of the block of the rank `step` before it that it reads.
    std::vector<IndexRange> reads(i64 step) const
    {
        std::vector<IndexRange> made;
        for (i64 rank = 0; rank < d_.ranks; ++rank)
            made.push_back(info(op_).blocks->reads(from_, op_, d_.block(rank),
                                                   d_.block((rank - step + d_.ranks) % d_.ranks)));
        return made;
    }

    /// The op with a block from index `begin` on, whose result 0 has the type `wide`.
    std::vector<ValueId> step(OpKind kind, const std::vector<ValueId>& operands, std::optional<DType> wide,
                              i64 begin)
    {
        Attributes attrs = op_.attrs;
        attrs.dtype = wide;
        attrs.lists.set(Attr::begin, {begin});
        std::vector<std::string> names;
        for (const ValueId v : op_.results)
            names.push_back(from_[v].name + ".step");
        return b_.op(kind, operands, std::move(attrs), names);
    }

    /// From those of the op, with another block, and the results so far.
    std::vector<ValueId> operands_of_step(std::vector<ValueId> all, const std::vector<ValueId>& now) const
    {
        const OpInfo& row = info(op_);
        std::vector<ValueId> optional;
        for (int i = 0; i < info(row.blocks->step).optional; ++i)
            if (const int at = optional_operand(from_, op_, i); at >= 0)
                optional.push_back(all[static_cast<std::size_t>(at)]);
        all.resize((*row.rule)->operands.size() - static_cast<std::size_t>(row.optional));
        const FactorRule rule = rule_of(from_, op_);
        for (std::size_t r = 0; r < now.size(); ++r)
            if (std::ranges::find(rule.results[r], rule.find(row.blocks->factor)) == rule.results[r].end())
                all.push_back(now[r]);
        all.insert(all.end(), optional.begin(), optional.end());
        return all;
    }

    /// The indices of `dim` that this rank needs, of those that ranks own.
    ValueId moved(ValueId x, std::size_t dim, const RangeOfRank& owned, const RangeOfRank& needed)
    {
        const auto boxes = [&](const RangeOfRank& of) {
            std::vector<Box> made;
            for (i64 rank = 0; rank < d_.ranks; ++rank) {
                Box& box = made.emplace_back(Shape(g_[x].type.shape.size(), 0), g_[x].type.shape);
                box.offset[dim] = of(rank).begin;
                box.shape[dim] = of(rank).size;
            }
            return made;
        };
        const std::vector<Box> have = boxes(owned), need = boxes(needed);
        return b_.exchange(permutes(have, need) ? Builder::Exchange::permute : Builder::Exchange::halo, x,
                           d_.axis, have, need, need[static_cast<std::size_t>(d_.rank)].shape);
    }

    /// Of parts that are for the rank: the range of its block.
    const IndexRange& received_range(const Parts& parts, i64 rank) const
    {
        return parts.read[static_cast<std::size_t>((rank + parts.step) % d_.ranks)];
    }

    std::vector<ValueId> sent_home(const Parts& parts)
    {
        std::vector<ValueId> received;
        for (std::size_t k = 0; k < parts.values.size(); ++k)
            received.push_back(moved(
                parts.values[k], d_.summed[k].dim,
                [&](i64 rank) { return parts.read[static_cast<std::size_t>(rank)]; },
                [&](i64 rank) { return received_range(parts, rank); }));
        return received;
    }

    void add(const Parts& parts, const std::vector<ValueId>& received, std::vector<ValueId>& sums)
    {
        for (std::size_t k = 0; k < received.size(); ++k) {
            const std::size_t dim = d_.summed[k].dim;
            const IndexRange own = d_.block(d_.rank), part = received_range(parts, d_.rank);
            if (part.size == 0)
                continue;
            Shape before(g_[received[k]].type.shape.size(), 0);
            before[dim] = part.begin - own.begin;
            sums[k] = b_.add_into(sums[k], b_.padded(received[k], before, g_[sums[k]].type.shape));
        }
    }

    const Graph& from_;
    const Op& op_;
    const GatheredOp& d_;
    Builder& b_;
    Graph& g_;
    int& together_;
};

} // namespace

Graph ring(Graph graph)
{
    const std::map<std::size_t, GatheredOp> ops = gathered_ops(graph);
    if (ops.empty())
        return graph;
    int together = 0;
    return simplify(without_gathers(graph, ops, [&](Builder& b, std::size_t i, const GatheredOp& gathered) {
        Steps(graph, graph.ops[i], gathered, b, together).append();
    }));
}

} // namespace trivium
