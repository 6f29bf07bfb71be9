#include "passes/sharding/partition.hpp"

#include "base/check.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/moves.hpp"
#include "passes/sharding/pricing.hpp"
#include "passes/sharding/refusals.hpp"
#include "passes/sharding/slices.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace trivium {

namespace {

class Partitioner {
public:
    Partitioner(const Graph& graph, const PartitionConfig& config)
        : g_(graph), c_(config), b_(out_), values_(graph.values.size()), parts_(graph, any_composed(graph)),
          pricing_(graph, parts_, config), sums_(sums_that_wait(graph)), slices_(slices_of(graph)),
          late_(graph.values.size(), nullptr), later_(later_readers(graph))
    {
        out_.name = g_.name;
        out_.file = g_.file;
        out_.mesh = g_.mesh;
        out_.stage_of_block = g_.stage_of_block.empty() ? c_.stage_of_block : g_.stage_of_block;
        out_.at = c_.at;
        wanted_.reserve(g_.values.size());
        for (const Value& v : g_.values) {
            b_.reserve(v.name);
            wanted_.push_back(dim_axes(v.sharding));
        }
    }

    Graph run()
    {
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            if (!g_.values[i].producer)
                give(ValueId(i));
        for (const Op& op : g_.ops) {
            b_.where = Builder::where_of(op);
            if (info(op).placement)
                place(op);
            else if (info(op).contributes)
                contribute(op);
            else if (!waits(op) && !run_pending(op))
                choose(op);
        }
        for (const ValueId v : g_.outputs) {
            const bool stays = g_[v].lifetime != Lifetime::microbatch; // the epilogue cannot read others
            const Phase made = g_[v].producer ? g_[g_[v].producer].phase : Phase::forward;
            b_.where = {stays ? Region::epilogue : Region::microbatch, stays ? Phase::update : made, 0, ""};
            const ValueId settled = g_[v].producer ? whole(v) : sharded_as(v, wanted(v));
            if (settled != of(v).native) { // the host finds outputs by name
                out_[of(v).native].name += ".part";
                out_[settled].name = g_[v].name;
            }
            out_.outputs.push_back(settled);
        }
        for (const Carry& carry : g_.carries)
            out_.carries.push_back({of(carry.in).native, of(carry.out).native});
        if (!std::ranges::is_sorted(out_.ops, [](const Op& a, const Op& b) { return a.region < b.region; }))
            sort_regions(out_);
        return std::move(out_);
    }

private:
    struct Placed {
        ValueId native; ///< as its op computes it
        Layout layout;
        ValueId settled; ///< as its sharding requires: combined, and in its shards
        std::map<std::tuple<DimAxes, Region, Phase, int>, ValueId> copies; ///< in other shardings
        std::map<std::tuple<DimAxes, std::vector<i64>, Region, Phase, int>, ValueId>
            parts; ///< other boxes than those of shardings: by the sharding and all boxes
    };

    /// Shards an addend like its accumulator, without the sums that may wait.
    void settle_addend(ValueId v)
    {
        Placed& p = of(v);
        if (p.settled)
            return;
        std::vector<Move> moves = moves_between(p.layout, wanted(v), g_[v].type.shape, g_.mesh);
        Layout to{wanted(v), put_off_sums(moves, wanted(v), g_.mesh)};
        if (to.partial.empty())
            return;
        p.native = emit_moves(b_, p.native, moves, p.layout, g_[v].type, c_.at);
        p.layout = std::move(to);
    }

    Placed& of(ValueId v) { return values_[v.index()]; }
    const DimAxes& wanted(ValueId v) const { return wanted_[v.index()]; }
    Bytes shard(ValueId v, const DimAxes& axes) const { return largest_shard(g_[v].type, axes, g_.mesh); }

    void give(ValueId v)
    {
        Value value = g_[v];
        value.whole = value.type.shape;
        value.type = local_type(value.type, wanted(v), g_.mesh, c_.at);
        out_.values.push_back(std::move(value));
        Placed& p = of(v);
        p.native = p.settled = ValueId(out_.values.size() - 1);
        p.layout = {wanted(v), g_[v].sharding->partial};
    }

    /// The open sums that its sharding leaves open.
    std::vector<Partial> kept_partial(ValueId v)
    {
        std::vector<Partial> kept = of(v).layout.partial;
        std::erase_if(kept, [&](const Partial& p) { return !within({p}, g_[v].sharding->partial); });
        return kept;
    }

    /// How the value is kept: in the shards of its sharding, and partial only as that says.
    Layout kept(ValueId v) { return {wanted(v), kept_partial(v)}; }

    /// The moves from where it is computed to where it is kept.
    std::vector<Move> settling(ValueId v)
    {
        Layout from = of(v).layout;
        const Layout to = kept(v);
        std::erase_if(from.partial, [&](const Partial& p) { return within({p}, to.partial); });
        return moves_between(from, to.axes, g_[v].type.shape, g_.mesh);
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
            p.settled = emit_moves(b_, p.native, settling(v), p.layout, g_[v].type, c_.at);
            b_.where = reader;
        }
        return p.settled;
    }

    /// The value sharded over `axes`. Copies are used only within their phase and stage, but one of the
    /// forward phase is kept in the value's place for the only later reader, if it is not larger.
    ValueId sharded_as(ValueId v, const DimAxes& axes)
    {
        const ValueId settled = whole(v);
        if (axes == wanted(v) && kept_partial(v).empty())
            return settled;
        const Layout from = kept(v);
        ValueId& copy = of(v).copies[{axes, b_.where.region, b_.where.phase, stage()}];
        if (!copy && later_[v.index()] == 1 && shard(v, axes) <= shard(v, from.axes))
            copy = of(v).copies[{axes, b_.where.region, Phase::forward, stage()}];
        if (!copy)
            copy = emit_moves(b_, settled, moves_between(from, axes, g_[v].type.shape, g_.mesh), from,
                              g_[v].type, c_.at);
        return copy;
    }

    /// Of the next op.
    int stage() const
    {
        const std::vector<int>& stages = out_.stage_of_block;
        return stages.empty() ? 0 : stages[static_cast<std::size_t>(b_.where.block)];
    }

    void place(const Op& op)
    {
        const ValueId from = op.operands[0], to = op.results[0];
        Placed& p = of(to);
        const Placed& source = of(from);
        p.layout = {wanted(to), source.layout.partial};
        p.layout.partial = kept_partial(to);
        Layout rest = source.layout; // but what stays partial
        std::erase_if(rest.partial, [&](const Partial& sum) { return within({sum}, p.layout.partial); });
        std::vector<Move> moves = moves_between(rest, wanted(to), g_[to].type.shape, g_.mesh);
        if (sums_[to.index()])
            p.layout.partial = put_off_sums(moves, wanted(to), g_.mesh);
        require_partial(g_, to, p.layout);
        p.native = emit_moves(b_, source.native, moves, source.layout, g_[from].type, c_.at);
        if (p.layout.partial.empty())
            p.settled = p.native;
        if (p.native != source.native)
            out_[p.native].name = g_[to].name;
    }

    /// One of the ranks that hold an operand contributes it, the others 0, so the sum over all is correct.
    void contribute(const Op& op)
    {
        Op local = op;
        local.operands.clear();
        local.attrs.edit().at->clear();
        for (std::size_t i = 0; i < op.operands.size(); ++i) {
            const Placed& p = of(op.operands[i]);
            if (!is_contributor(p.layout, g_.mesh, c_.at, c_.stage_axis))
                continue;
            local.operands.push_back(p.native);
            local.attrs.edit().at->push_back((*op.attrs->at)[i]);
        }
        Layout layout{DimAxes(g_[op.results[0]].type.shape.size()), {}}; // whole, regardless of its sharding
        if (g_.mesh.ranks() > 1)
            layout.partial = {{world_axis}};
        append(op, std::move(local), {layout});
    }

    /// Runs an op without summing the operands in which it is linear first, if all of them are partial over
    /// the same axes. Whether it could.
    bool run_pending(const Op& op)
    {
        const OperandSet open = op.division.empty() || op.stays_partial ? linear_operands(g_, op) : 0;
        if (open == 0 || op.operands.empty() || (op.accumulate && !sums_[op.operands[0].index()]))
            return false;
        if (op.accumulate)
            settle_addend(op.operands[0]);
        const std::size_t one = first_operand(open);
        const Layout first = of(op.operands[one]).layout;
        if (op.accumulate && first.axes != of(op.operands.back()).layout.axes)
            return false;
        i64 growth = 0;
        for (std::size_t i = 0; i + (op.accumulate ? 1 : 0) < op.operands.size(); ++i) {
            if (!has_operand(open, i))
                continue;
            const Placed& p = of(op.operands[i]);
            growth -= g_[op.operands[i]].type.elements();
            const bool stays =
                op.stays_partial || (p.settled == p.native && !g_[op.results[0]].sharding->partial.empty());
            if (p.layout.partial.empty() || p.layout != first || (p.settled && !stays))
                return false;
        }
        // Not if that makes the partial tensor larger, nor for other combiners: the op is linear, max is not.
        for (const ValueId v : op.results)
            growth += g_[v].type.elements();
        if ((growth > 0 && !(op.stays_partial && info(op).separable)) ||
            std::ranges::any_of(first.partial, [](const Partial& p) { return p.combine != Combine::sum; }))
            return false;
        const OpSharding sharding(g_, op, parts_, c_.stage_axis);
        const std::optional<Assignment> assignment = sharding.assignment_like(one, first.axes);
        if (!assignment || std::ranges::any_of(
                               op.results, [&](ValueId v) { return !lacking_partial(g_, v, first).empty(); }))
            return false;
        emit(op, sharding, *assignment, first.partial, open);
        return true;
    }

    /// Bytes that the choice moves, plus the work; nothing if a buffer would not fit, or from `most` on.
    std::optional<double> cost(const Op& op, const OpSharding& sharding, const Assignment& assignment,
                               double most)
    {
        // A value that outlives the microbatch would be moved in every microbatch: never worth it.
        const double fixed = c_.once ? 1 : 1e9, work = pricing_.work(op, sharding, assignment);
        double bytes = 0;
        for (std::size_t i = 0; i < sharding.rule().operands.size() && bytes + work < most; ++i) {
            const ValueId v = op.operands[i];
            bytes += pricing_.bytes_to_read(sharding, i, assignment, kept(v), g_[v]) *
                     (op.region == Region::microbatch && outlives_microbatch(g_, v) ? fixed : 1);
        }
        for (std::size_t r = 0; r < sharding.rule().results.size() && bytes + work < most; ++r) {
            const Value& v = g_[op.results[r]];
            const Layout made = sharding.result_layout(r, assignment);
            if (const ValueId into = aliased_operand(op, r)) {
                const Layout& kept = of(into).layout;
                const bool begins = op.accumulate && g_[into].role == Role::carry;
                if (made.axes != kept.axes || (!begins && !(op.accumulate ? within(made.partial, kept.partial)
                                                                          : made.partial == kept.partial)))
                    return {};
                continue;
            }
            bytes += pricing_.bytes_moved(made, wanted(op.results[r]), v, sums_[op.results[r].index()]);
            if (sharding.irregular_result(r, assignment))
                bytes += pricing_.bytes_exchanged(sharding, r, assignment, v);
        }
        return bytes + work < most ? std::optional(bytes + work) : std::nullopt;
    }

    /// An addend counts once. What accumulates is linear in its first operand.
    void add_once(const Op& op, Op& local, Layout& layout)
    {
        if (g_[op.operands.back()].role == Role::carry)
            return;
        const std::vector<Partial>& all = of(op.operands.back()).layout.partial;
        local.operands[0] = counted_once(b_, local.operands[0], all, layout.partial, c_.at);
        layout.partial = all;
    }

    /// The assignment of op.division; otherwise the one that costs least. Throws UserError if there is none.
    Assignment chosen_for(const Op& op, const OpSharding& sharding)
    {
        if (!op.division.empty()) {
            Assignment decided;
            for (const std::vector<std::string>& axes : op.division)
                decided.push_back(parts_.parts_of(axes));
            return decided;
        }
        std::vector<Assignment> assignments = sharding.assignments();
        if (assignments.size() == 1 && !updates_in_place(op)) // only a buffer can refuse it
            return std::move(assignments[0]);
        const Assignment* best = nullptr;
        double least = INFINITY;
        for (const Assignment& assignment : assignments)
            if (const auto price = cost(op, sharding, assignment, least)) {
                least = *price;
                best = &assignment;
            }
        if (!best)
            refuse_buffers(g_, op, [&](ValueId v) -> const Layout& { return of(v).layout; });
        return *best;
    }

    void choose(const Op& op)
    {
        const OpSharding sharding(g_, op, parts_, c_.stage_axis);
        emit(op, sharding, chosen_for(op, sharding), {}, 0);
    }

    /// Whether the op is appended only when its reader asks for it: it may read what it needs elsewhere.
    bool waits(const Op& op)
    {
        if (op.results.size() != 1 || !slices_[op.results[0].index()] ||
            !of(op.operands[0]).layout.partial.empty())
            return false;
        late_[op.results[0].index()] = &op;
        return true;
    }

    void make_late(ValueId v)
    {
        if (const Op* op = std::exchange(late_[v.index()], nullptr)) {
            const Builder::Where reader = b_.where;
            b_.where = Builder::where_of(*op);
            choose(*op);
            b_.where = reader;
        }
    }

    /// The boxes that an op reads of v, a slice that is not made yet, from the value of which it is one; an
    /// invalid id if that sends more than to make v and to move the boxes.
    ValueId read_through(ValueId v, const OpSharding& reader, std::size_t i, const Assignment& assignment)
    {
        const SliceOf& slice = *slices_[v.index()];
        const Value& whole = g_[slice.whole];
        const DimAxes &axes = wanted(slice.whole), read = reader.operand_axes(i, assignment);
        for (std::size_t d = 0; d < axes.size(); ++d) // so the boxes depend on `axes` alone
            if (!read[d].empty() && read[d] != axes[d])
                return {};
        const auto needed = [&](const Coordinates& rank) {
            return slice.in_whole(reader.operand_box(i, assignment, rank));
        };
        const double direct = pricing_.bytes_lacking(axes, needed, whole);
        const OpSharding sharding(g_, *late_[v.index()], parts_, c_.stage_axis);
        const Assignment own = chosen_for(*late_[v.index()], sharding);
        const double moved = pricing_.bytes_to_read(sharding, 0, own, kept(slice.whole), whole) +
                             pricing_.bytes_moved(sharding.result_layout(0, own), wanted(v), g_[v]) +
                             pricing_.bytes_to_read(reader, i, assignment, kept(v), g_[v]);
        return direct < moved ? boxes_of(slice.whole, axes, direct > 0, needed) : ValueId{};
    }

    /// What the op reads of operand i on this rank.
    ValueId operand_for(const Op& op, const OpSharding& sharding, std::size_t i, const Assignment& assignment)
    {
        const ValueId v = op.operands[i];
        const DimAxes axes = sharding.operand_axes(i, assignment);
        const bool irregular = sharding.irregular_operand(i, assignment);
        if (late_[v.index()] && irregular)
            if (const ValueId direct = read_through(v, sharding, i, assignment))
                return direct;
        make_late(v);
        if (!irregular)
            return sharded_as(v, axes);
        const Approach way = pricing_.approach(sharding, i, assignment, kept(v), g_[v]);
        const auto needed = [&](const Coordinates& rank) {
            return sharding.operand_box(i, assignment, rank);
        };
        // All ranks must make the same exchanges, so this rank's box alone does not tell them apart.
        std::vector<i64> key = numbers_of(g_.mesh, names_in(axes), needed);
        key.push_back(way.exchanges);
        ValueId& part = of(v).parts[{axes, key, b_.where.region, b_.where.phase, stage()}];
        if (!part)
            part = boxes_of(v, way.axes, way.exchanges, needed);
        return part;
    }

    /// The box of the value that this rank needs, from its shard by `axes`.
    ValueId boxes_of(ValueId v, const DimAxes& axes, bool exchanges, const BoxOf& needed)
    {
        const ValueId x = sharded_as(v, axes);
        const Shards shards(g_[v].type.shape, axes, g_.mesh);
        return exchanges ? exchanged(b_, c_.at, x, axes, shards, needed)
                         : sliced(b_, x, shards(c_.at), needed(c_.at));
    }

    /// Appends the local op. The operands `open` are still partial over the axes of `pending`.
    void emit(const Op& op, const OpSharding& sharding, const Assignment& assignment,
              const std::vector<Partial>& pending, OperandSet open)
    {
        const FactorRule& rule = sharding.rule();
        Op local = sharding.local_op(assignment, c_.at);
        local.division.clear();
        local.stays_partial = false;
        for (std::size_t i = 0; i < rule.operands.size(); ++i)
            local.operands[i] =
                has_operand(open, i) ? of(op.operands[i]).native : operand_for(op, sharding, i, assignment);
        for (std::size_t i = 0; i < rule.operands.size(); ++i)
            if (has_operand(info(op).added, i))
                local.operands[i] = counted_once(b_, local.operands[i], pending, {}, c_.at);
        if (op.accumulate)
            local.operands.back() = of(op.operands.back()).native;
        std::vector<Layout> layouts;
        for (std::size_t r = 0; r < rule.results.size(); ++r) {
            layouts.push_back(sharding.result_layout(r, assignment));
            layouts.back().add(pending);
        }
        if (op.accumulate)
            add_once(op, local, layouts[0]);
        if (info(op).manual)
            return cross(op, local.operands[0], layouts[0]);
        append(op, std::move(local), layouts);
        for (std::size_t r = 0; r < rule.results.size(); ++r)
            if (sharding.irregular_result(r, assignment)) {
                Placed& p = of(op.results[r]);
                out_[p.native].name += ".own";
                p.native = exchanged(
                    b_, c_.at, p.native, p.layout.axes,
                    [&](const Coordinates& rank) { return sharding.result_box(r, assignment, rank); },
                    Shards(g_[op.results[r]].type.shape, p.layout.axes, g_.mesh));
                out_[p.native].sharding = sharding_of(p.layout);
                out_[p.native].name = g_[op.results[r]].name;
                if (p.settled)
                    p.settled = p.native;
            }
    }

    /// The boundary of a manual region: the rank's shard, seen as another tensor.
    void cross(const Op& op, ValueId x, const Layout& layout)
    {
        Placed& p = of(op.results[0]);
        require_partial(g_, op.results[0], layout);
        p.layout = layout;
        p.native = b_.reshard_to(x, sharding_of(layout));
        out_[p.native].name = g_[op.results[0]].name;
        if (layout.axes == wanted(op.results[0]))
            p.settled = p.native;
    }

    void append(const Op& op, Op local, const std::vector<Layout>& layouts)
    {
        local.results.clear();
        const std::vector<TensorType> types = infer(out_, local);
        for (std::size_t r = 0; r < types.size(); ++r) {
            require_partial(g_, op.results[r], layouts[r]);
            Value v = g_[op.results[r]];
            v.type = types[r];
            v.sharding = sharding_of(layouts[r]);
            v.sharding.edit().origin = g_[op.results[r]].sharding->origin;
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
    std::vector<DimAxes> wanted_; ///< by value: its sharding
    AxisParts parts_;
    Pricing pricing_;
    std::vector<bool> sums_;                     ///< by value (sums_that_wait)
    std::vector<std::optional<SliceOf>> slices_; ///< by value (slices_of)
    std::vector<const Op*> late_;                ///< by value: its op, if that waits for its reader
    std::vector<int> later_;                     ///< by value (later_readers)
};

} // namespace

Graph partition(const Graph& graph, const PartitionConfig& config)
{
    return Partitioner(graph, config).run();
}

} // namespace trivium
