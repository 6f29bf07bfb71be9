#include "passes/partition.hpp"

#include "base/check.hpp"
#include "passes/moves.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace trivium {

namespace {

/// The axes that shard each factor of one op, major first.
using Assignment = std::vector<std::vector<std::string>>;

class Partitioner {
public:
    Partitioner(const Graph& graph, const PartitionConfig& config)
        : g_(graph), c_(config), b_(out_), values_(graph.values.size())
    {
        out_.name = g_.name;
        out_.file = g_.file;
        out_.mesh = g_.mesh;
        out_.stage_of_block = g_.stage_of_block;
        out_.at = c_.at;
        find_sums();
    }

    Graph run()
    {
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            if (!g_.values[i].producer)
                give(ValueId(i));
        for (const Op& op : g_.ops) {
            b_.where = {op.region, op.phase, op.block, op.scope};
            if (info(op).placement)
                place(op);
            else if (info(op).contributes)
                contribute(op);
            else if (const auto pending = all_pending(op))
                emit(op, rule_of(g_, op), assignment_of(op, *pending), pending->partial);
            else
                choose(op);
        }
        b_.where = {Region::epilogue, Phase::update, 0, ""};
        for (const ValueId v : g_.outputs) {
            const ValueId settled = whole(v);
            if (settled != of(v).native) { // the host finds outputs by name
                out_[of(v).native].name += ".part";
                out_[settled].name = g_[v].name;
            }
            out_.outputs.push_back(settled);
        }
        for (const Carry& carry : g_.carries)
            out_.carries.push_back({of(carry.in).native, of(carry.out).native});
        return std::move(out_);
    }

private:
    struct Placed {
        ValueId native; ///< as its op computes it
        Layout layout;
        ValueId settled; ///< as its sharding requires: combined, and in its shards
        std::map<std::tuple<DimAxes, Region, Phase, int>, ValueId> copies; ///< in other shardings
    };

    static bool is_sum(const Move& move)
    {
        return move.kind == MoveKind::all_reduce && move.combine == Combine::sum;
    }

    /// Removes the sums from `moves`: what stays partial in an addend is reduced once, with the accumulator.
    static std::vector<Partial> put_off_sums(std::vector<Move>& moves)
    {
        std::vector<Partial> partial;
        std::erase_if(moves, [&](const Move& move) {
            if (is_sum(move))
                partial.push_back({move.axis, move.combine});
            return is_sum(move);
        });
        return partial;
    }

    /// Shards an addend like its accumulator, without the sums that may wait.
    void settle_addend(ValueId v)
    {
        Placed& p = of(v);
        if (p.settled)
            return;
        std::vector<Move> moves = moves_between(p.layout, wanted(v), g_.mesh);
        Layout to{wanted(v), put_off_sums(moves)};
        if (to.partial.empty())
            return;
        p.native = emit_moves(b_, p.native, moves, p.layout, g_[v].type, c_.at);
        p.layout = std::move(to);
    }

    /// Values whose only reader is the one op that adds them into a carried accumulator in every microbatch.
    /// They may stay partial: what they lack is summed once, with the accumulator.
    void find_sums()
    {
        sums_.resize(g_.values.size(), false);
        std::vector<int> readers(g_.values.size(), 0);
        for (const Op& op : g_.ops)
            for (const ValueId v : op.operands)
                ++readers[v.index()];
        for (const Op& op : g_.ops)
            if (op.accumulate && info(op).linear && g_[op.operands.back()].role == Role::carry &&
                readers[op.operands.back().index()] == 1 && readers[op.operands[0].index()] == 1)
                sums_[op.operands[0].index()] = true;
    }

    Placed& of(ValueId v) { return values_[v.index()]; }
    DimAxes wanted(ValueId v) const { return dim_axes(g_[v].sharding); }

    void give(ValueId v)
    {
        Value value = g_[v];
        value.whole = value.type.shape;
        value.type = local_type(value.type, wanted(v), g_.mesh, c_.at);
        out_.values.push_back(std::move(value));
        Placed& p = of(v);
        p.native = p.settled = ValueId(out_.values.size() - 1);
        p.layout = {wanted(v), {}};
    }

    /// The value as its sharding requires it.
    ValueId whole(ValueId v)
    {
        Placed& p = of(v);
        if (!p.settled) {
            const Builder::Where reader = b_.where;
            b_.where.block =
                g_[g_[v].producer].block; // the reduction belongs to the op that computed the partial values
            b_.where.scope = g_[g_[v].producer].scope;
            p.settled = emit_moves(b_, p.native, moves_between(p.layout, wanted(v), g_.mesh), p.layout,
                                   g_[v].type, c_.at);
            b_.where = reader;
        }
        return p.settled;
    }

    /// The value sharded over `axes`. Copies are used only within their phase and stage, which may run
    /// without the others: the next one makes its own.
    ValueId sharded_as(ValueId v, const DimAxes& axes)
    {
        const ValueId settled = whole(v);
        if (axes == wanted(v))
            return settled;
        ValueId& copy = of(v).copies[{axes, b_.where.region, b_.where.phase, stage_of_block(b_.where.block)}];
        if (!copy) {
            const Layout from{wanted(v), {}};
            copy = emit_moves(b_, settled, moves_between(from, axes, g_.mesh), from, g_[v].type, c_.at);
        }
        return copy;
    }

    int stage_of_block(int block) const
    {
        return g_.stage_of_block.empty() ? 0 : g_.stage_of_block[static_cast<std::size_t>(block)];
    }

    void place(const Op& op)
    {
        const ValueId from = op.operands[0], to = op.results[0];
        Placed& p = of(to);
        p.layout = {wanted(to), {}};
        const Placed& source = of(from);
        std::vector<Move> moves = moves_between(source.layout, wanted(to), g_.mesh);
        if (sums_[to.index()])
            p.layout.partial = put_off_sums(moves);
        p.native = emit_moves(b_, source.native, moves, source.layout, g_[from].type, c_.at);
        if (p.layout.partial.empty())
            p.settled = p.native;
        if (p.native != source.native)
            out_[p.native].name = g_[to].name;
    }

    /// Exactly one of the ranks that hold an operand contributes it, the others contribute 0, so the sum over
    /// all ranks is correct.
    void contribute(const Op& op)
    {
        Op local = op;
        local.operands.clear();
        local.attrs.at->clear();
        for (std::size_t i = 0; i < op.operands.size(); ++i) {
            const Placed& p = of(op.operands[i]);
            bool mine = true;
            for (std::size_t a = 0; a < g_.mesh.axes.size(); ++a) {
                const std::string& axis = g_.mesh.axes[a].name;
                const bool summed = axis == c_.stage_axis ||
                                    std::any_of(p.layout.partial.begin(), p.layout.partial.end(),
                                                [&](const Partial& partial) { return partial.axis == axis; });
                mine = mine && (summed || c_.at[a] == 0);
            }
            if (!mine)
                continue;
            local.operands.push_back(p.native);
            local.attrs.at->push_back((*op.attrs.at)[i]);
        }
        Layout layout{DimAxes(g_[op.results[0]].type.shape.size()), {}}; // whole, regardless of its sharding
        if (g_.mesh.ranks() > 1)
            layout.partial = {{world_axis}};
        append(op, std::move(local), {layout});
    }

    /// For a linear op whose operands are all partial over the same axes: their layout, in which it may run.
    std::optional<Layout> all_pending(const Op& op)
    {
        if (!info(op).linear || (op.accumulate && !sums_[op.operands[0].index()]))
            return {};
        if (op.accumulate)
            settle_addend(op.operands[0]);
        const Layout& first = of(op.operands[0]).layout;
        if (op.accumulate && first.axes != of(op.operands.back()).layout.axes)
            return {};
        for (std::size_t i = 0; i + (op.accumulate ? 1 : 0) < op.operands.size(); ++i) {
            const Placed& p = of(op.operands[i]);
            if (p.layout.partial.empty() || p.layout != first || p.settled)
                return {};
        }
        return first;
    }

    Assignment assignment_of(const Op& op, const Layout& layout)
    {
        const FactorRule rule = rule_of(g_, op);
        Assignment made(rule.factors.size());
        for (std::size_t d = 0; d < layout.axes.size(); ++d)
            made[static_cast<std::size_t>(rule.operands[0][d])] = layout.axes[d];
        return made;
    }

    static DimAxes axes_for(const FactorList& dims, const Assignment& assignment)
    {
        DimAxes axes;
        for (const int f : dims)
            axes.push_back(assignment[static_cast<std::size_t>(f)]);
        return axes;
    }

    /// The distribution of result `r` if the op runs with its factors sharded like this.
    Layout result_layout(const FactorRule& rule, std::size_t r, const Assignment& assignment) const
    {
        Layout layout{axes_for(rule.results[r], assignment), {}};
        for (std::size_t f = 0; f < assignment.size(); ++f)
            if (std::find(rule.results[r].begin(), rule.results[r].end(), static_cast<int>(f)) ==
                rule.results[r].end())
                for (const std::string& axis : assignment[f])
                    layout.partial.push_back({axis, rule.combine[r]});
        std::sort(layout.partial.begin(), layout.partial.end(), [&](const Partial& a, const Partial& b) {
            return g_.mesh.find(a.axis) > g_.mesh.find(b.axis);
        });
        return layout;
    }

    /// For each axis, the factors that it could shard: those that it shards in some operand or result.
    std::vector<std::pair<std::string, std::vector<int>>> options(const Op& op, const FactorRule& rule) const
    {
        std::vector<std::pair<std::string, std::vector<int>>> all;
        for (const MeshAxis& axis : g_.mesh.axes) {
            if (axis.size == 1 || axis.name == c_.stage_axis)
                continue;
            std::vector<int> factors{-1};
            const auto look = [&](ValueId v, const FactorList& dims) {
                for (std::size_t d = 0; d < dims.size(); ++d) {
                    const auto& axes = g_[v].sharding.dims[d].axes;
                    const Factor& factor = rule.factors[static_cast<std::size_t>(dims[d])];
                    if (factor.kind != FactorKind::replicated && factor.size >= axis.size &&
                        std::find(axes.begin(), axes.end(), axis.name) != axes.end() &&
                        std::find(factors.begin(), factors.end(), dims[d]) == factors.end())
                        factors.push_back(dims[d]);
                }
            };
            for (std::size_t i = 0; i < rule.operands.size(); ++i)
                look(op.operands[i], rule.operands[i]);
            for (std::size_t i = 0; i < rule.results.size(); ++i)
                look(op.results[i], rule.results[i]);
            all.emplace_back(axis.name, std::move(factors));
        }
        return all;
    }

    /// Orders the axes of each factor as in some operand or result, otherwise fastest first.
    void order_axes(const Op& op, const FactorRule& rule, Assignment& assignment) const
    {
        for (std::size_t f = 0; f < assignment.size(); ++f) {
            auto& axes = assignment[f];
            if (axes.size() < 2)
                continue;
            std::sort(axes.begin(), axes.end(),
                      [&](const auto& a, const auto& b) { return g_.mesh.find(a) > g_.mesh.find(b); });
            const auto follow = [&](ValueId v, const FactorList& dims) {
                for (std::size_t d = 0; d < dims.size(); ++d)
                    if (dims[d] == static_cast<int>(f)) {
                        std::vector<std::string> order = g_[v].sharding.dims[d].axes;
                        std::erase_if(order, [&](const auto& a) {
                            return std::find(axes.begin(), axes.end(), a) == axes.end();
                        });
                        if (order.size() == axes.size())
                            axes = order;
                    }
            };
            for (std::size_t r = 0; r < rule.results.size(); ++r)
                follow(op.results[r], rule.results[r]);
            for (std::size_t i = 0; i < rule.operands.size(); ++i)
                follow(op.operands[i], rule.operands[i]);
            for (std::size_t r = 0; r < rule.results.size(); ++r)
                if (aliased_operand(op, r)) // sharded like its buffer
                    follow(op.results[r], rule.results[r]);
        }
    }

    /// Whether v is kept longer than a microbatch, or is such a value resharded (a gathered parameter).
    bool outlives_microbatch(ValueId v) const
    {
        while (g_[v].producer && info(g_[g_[v].producer]).placement)
            v = g_[g_[v].producer].operands[0];
        return g_[v].lifetime != Lifetime::microbatch;
    }

    /// Bytes that the choice moves, plus a little for the work; nullopt if an in-place result would not fit.
    /// Computed for the first rank, which has the largest shards, because all ranks must make the same
    /// choice.
    std::optional<double> cost(const Op& op, const FactorRule& rule, const Assignment& assignment)
    {
        // A value that outlives the microbatch would be moved in every microbatch: never worth it.
        constexpr double fixed = 1e9;
        const Coordinates first(g_.mesh.axes.size(), 0);
        double bytes = 0, touched = 0;
        for (std::size_t i = 0; i < rule.operands.size(); ++i) {
            const Value& v = g_[op.operands[i]];
            const DimAxes axes = axes_for(rule.operands[i], assignment);
            touched += static_cast<double>(local_type(v.type, axes, g_.mesh, first).bytes());
            if (of(op.operands[i]).copies.count({axes, op.region, op.phase, stage_of(g_, op)}))
                continue;
            const Layout from{wanted(op.operands[i]), {}};
            const double moved =
                elements_moved(moves_between(from, axes, g_.mesh), from, v.type.shape, g_.mesh) *
                static_cast<double>(size_of(v.type.dtype));
            bytes +=
                moved * (op.region == Region::microbatch && outlives_microbatch(op.operands[i]) ? fixed : 1);
        }
        for (std::size_t r = 0; r < rule.results.size(); ++r) {
            const Value& v = g_[op.results[r]];
            const Layout made = result_layout(rule, r, assignment);
            touched += static_cast<double>(local_type(v.type, made.axes, g_.mesh, first).bytes());
            if (const ValueId into = aliased_operand(op, r)) {
                const Layout& kept = of(into).layout;
                const bool begins = op.accumulate && g_[into].role == Role::carry;
                if (made.axes != kept.axes || (!begins && made.partial != kept.partial))
                    return {};
                continue;
            }
            std::vector<Move> moves = moves_between(made, wanted(op.results[r]), g_.mesh);
            if (sums_[op.results[r].index()])
                std::erase_if(moves, is_sum);
            bytes += elements_moved(moves, made, v.type.shape, g_.mesh) *
                     static_cast<double>(size_of(v.type.dtype));
        }
        return bytes + 1e-3 * touched;
    }

    void choose(const Op& op)
    {
        const FactorRule rule = rule_of(g_, op);
        const auto axes = options(op, rule);
        std::optional<Assignment> best;
        double least = 0;
        std::vector<std::size_t> choice(axes.size(), 0);
        for (bool more = true; more;) {
            Assignment assignment(rule.factors.size());
            for (std::size_t a = 0; a < axes.size(); ++a)
                if (const int f = axes[a].second[choice[a]]; f >= 0)
                    assignment[static_cast<std::size_t>(f)].push_back(axes[a].first);
            order_axes(op, rule, assignment);
            if (fits(rule, assignment))
                if (const auto price = cost(op, rule, assignment); price && (!best || *price < least)) {
                    least = *price;
                    best = assignment;
                }
            more = false;
            for (std::size_t a = 0; a < axes.size() && !more; ++a) {
                more = ++choice[a] < axes[a].second.size();
                if (!more)
                    choice[a] = 0;
            }
        }
        if (!best)
            throw UserError(
                {place_of(g_, op), "cannot be sharded such that its result stays in its operand's buffer",
                 "the two are sharded, or still partial, over different axes", "shard both in the same way"});
        emit(op, rule, *best, {});
    }

    bool fits(const FactorRule& rule, const Assignment& assignment) const
    {
        for (std::size_t f = 0; f < assignment.size(); ++f) {
            i64 parts = 1;
            for (const std::string& axis : assignment[f])
                parts *= g_.mesh.size(axis);
            if (parts > rule.factors[f].size)
                return false;
        }
        return true;
    }

    /// Appends the local op. With `pending`, its operands are still partial over these axes.
    void emit(const Op& op, const FactorRule& rule, const Assignment& assignment,
              const std::vector<Partial>& pending)
    {
        Op local = op;
        for (std::size_t i = 0; i < rule.operands.size(); ++i)
            local.operands[i] = !pending.empty()
                                    ? of(op.operands[i]).native
                                    : sharded_as(op.operands[i], axes_for(rule.operands[i], assignment));
        if (op.accumulate)
            local.operands.back() = of(op.operands.back()).native;
        for (std::size_t f = 0; f < assignment.size(); ++f) {
            if (assignment[f].empty())
                continue;
            const Factor& factor = rule.factors[f];
            Sharding one;
            one.dims = {{assignment[f], false}};
            const Box part = box_of({factor.size}, one, g_.mesh, c_.at);
            for (FactorSize& size : local.attrs.sizes)
                if (size.factor == factor.name)
                    size.size = part.shape[0];
            if (factor.kind == FactorKind::indexed)
                local.attrs.offsets.push_back({factor.name, part.offset[0]});
        }
        std::vector<Layout> layouts;
        for (std::size_t r = 0; r < rule.results.size(); ++r) {
            layouts.push_back(result_layout(rule, r, assignment));
            if (!pending.empty())
                layouts.back().partial = pending;
        }
        append(op, std::move(local), layouts);
    }

    void append(const Op& op, Op local, const std::vector<Layout>& layouts)
    {
        local.results.clear();
        const std::vector<TensorType> types = infer(out_, local);
        for (std::size_t r = 0; r < types.size(); ++r) {
            Value v = g_[op.results[r]];
            v.type = types[r];
            v.sharding = sharding_of(layouts[r]);
            v.sharding.origin = g_[op.results[r]].sharding.origin;
            v.lifetime = result_lifetime(out_, local, r);
            v.producer = OpId(out_.ops.size());
            out_.values.push_back(std::move(v));
            local.results.emplace_back(out_.values.size() - 1);
            Placed& p = of(op.results[r]);
            p.native = local.results.back();
            p.layout = layouts[r];
            if (p.layout.partial.empty() && p.layout.axes == wanted(op.results[r]))
                p.settled = p.native;
        }
        out_.ops.push_back(std::move(local));
        if (op.accumulate && g_[op.operands.back()].role ==
                                 Role::carry) // other ops that add into it must be partial over the same axes
            of(op.operands.back()).layout.partial = layouts[0].partial;
    }

    const Graph& g_;
    const PartitionConfig& c_;
    Graph out_;
    Builder b_;
    std::vector<Placed> values_;
    std::vector<bool> sums_; ///< by value (find_sums)
};

} // namespace

Graph partition(const Graph& graph, const PartitionConfig& config)
{
    return Partitioner(graph, config).run();
}

} // namespace trivium
