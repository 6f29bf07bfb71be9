#include "passes/sharding/propagate.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/ops/op_table.hpp"
#include "passes/sharding/axis_parts.hpp"
#include "passes/sharding/factor_shardings.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace trivium {

namespace {

/// Where propagation may carry the axes of a factor.
struct Direction {
    bool forward = false, backward = false;
    bool operator==(const Direction&) const = default;
};

constexpr int op_levels = 5;

class Propagation {
public:
    explicit Propagation(Graph& graph)
        : graph_(graph), parts_(graph, any_composed(graph)), values_(graph.values.size()),
          versions_(graph.values.size(), 0), users_(graph.values.size()), uses_(graph.values.size(), 0)
    {
        // What is annotated on the results of accumulating ops goes for the buffer that they share.
        for (std::size_t i = 0; i < values_.size(); ++i)
            buffers_.emplace_back(i);
        for (const Op& op : graph_.ops)
            if (op.accumulate)
                buffers_[op.results[0].index()] = buffers_[op.operands.back().index()];
        for (const bool shares : {false, true}) // first what owns a buffer
            for (std::size_t i = 0; i < graph_.values.size(); ++i)
                if ((buffers_[i] != ValueId(i)) == shares)
                    begin(graph_.values[i], values_[buffers_[i].index()], shares);
        for (std::size_t i = 0; i < graph_.ops.size(); ++i)
            add(static_cast<int>(i));
        for (const ValueId v : graph_.outputs)
            ++uses_[v.index()];
        mark_manual();
        queued_.resize(ops_.size(), false);
    }

    void run()
    {
        std::set<int> priorities{0};
        for (const Given& given : given_)
            priorities.insert(given.priority);
        for (const int priority : priorities) {
            for (const Given& given : given_)
                if (given.priority == priority)
                    admit(given);
            for (int level = 0; level < op_levels; ++level)
                sweep(level);
        }
        for (const Op& op : graph_.ops) // by then a priority may have sharded the accumulator further
            if (op.accumulate)
                values_[op.results[0].index()].dims = values_[op.operands.back().index()].dims;
        for (const Op& op : graph_.ops)
            if (op.accumulate)
                for (const ValueId v : {op.results[0], op.operands.back()})
                    require_kept(v);
        for (std::size_t i = 0; i < values_.size(); ++i)
            finish(graph_.values[i], values_[i]);
    }

private:
    /// What a visit of an op found.
    struct Visit {
        std::uint64_t versions = ~std::uint64_t{0}; ///< of its tensors, added
        std::vector<Direction> ways{};              ///< by factor
        bool operator==(const Visit&) const = default;
    };
    struct OpEntry {
        FactorRule rule;
        std::vector<ValueId> operands, results;
        bool elementwise = false; ///< every tensor has the same dimensions
        bool passes = false;      ///< pass-through, in both directions
        bool boundary = false;    ///< states the sharding of an output
        /// Its last visit that changed nothing: another one that finds the same changes nothing either.
        Visit settled{};
    };
    /// A dimension's sharding as the user gave it, with a priority above 0.
    struct Given {
        ValueId value;
        std::size_t dim = 0;
        int priority = 0;
        PartList axes;
        bool open = false;
    };

    /// `again`: the state has what another value states that shares the buffer.
    void begin(Value& v, ValueSharding& state, bool again)
    {
        v.sharding.edit().pinned = !v.sharding->dims.empty() || !v.sharding->partial.empty();
        for (const Partial& p : v.sharding->partial)
            for (const PartId part : parts_.parts_of(axes_of_group(graph_.mesh, p.axis)))
                state.blocked.push_back(part);
        state.dims.resize(v.type.shape.size());
        for (const PartId part : parts_.parts_of(v.sharding->replicated))
            state.blocked.push_back(part);
        const ValueId id = buffers_[static_cast<std::size_t>(&v - graph_.values.data())];
        for (std::size_t d = 0; d < v.sharding->dims.size(); ++d) {
            const DimSharding& dim = v.sharding->dims[d];
            const PartList axes = parts_.parts_of(dim.axes);
            if (dim.priority == 0) {
                const bool open = dim.open && (!again || state.dims[d].open);
                state.dims[d] = {axes.size() < state.dims[d].axes.size() ? state.dims[d].axes : axes, open};
                continue;
            }
            // Until its turn nothing may shard it, nor use its axes for another dimension.
            given_.push_back({id, d, dim.priority, axes, dim.open});
            state.dims[d].open = false;
            state.blocked.insert(state.blocked.end(), axes.begin(), axes.end());
        }
    }

    /// Values that share a buffer have one sharding.
    void require_kept(ValueId v) const
    {
        const auto refuse = [&](const std::string& reason) {
            throw UserError(
                {str(source_place(graph_, graph_[v].line), "%", graph_[v].name),
                 "has a sharding that contradicts that of the buffer in which it is", reason,
                 "annotate an accumulator and what is added into it in the same way, or one of them"});
        };
        const std::string& buffer = graph_[buffers_[v.index()]].name;
        const std::vector<ValueSharding::Dim>& made = values_[v.index()].dims;
        for (const PartId part : parts_.parts_of(graph_[v].sharding->replicated))
            for (const ValueSharding::Dim& dim : made)
                if (holds(dim.axes, part))
                    refuse(str("it is replicated over '", parts_.names_of({part})[0], "', the buffer of %",
                               buffer, " is sharded over it"));
        for (std::size_t d = 0; d < graph_[v].sharding->dims.size(); ++d) {
            const DimSharding& dim = graph_[v].sharding->dims[d];
            const PartList given = parts_.parts_of(dim.axes);
            if (made[d].axes.size() >= given.size() &&
                std::equal(given.begin(), given.end(), made[d].axes.begin()) &&
                (dim.open || made[d].axes.size() == given.size()))
                continue;
            const std::string list = joined_words(parts_.names_of(made[d].axes), "+");
            refuse(str("dimension ", d, " of the buffer of %", buffer, " is sharded over ",
                       list.empty() ? "nothing" : list));
        }
    }

    void admit(const Given& given)
    {
        ValueSharding& state = values_[given.value.index()];
        ++versions_[given.value.index()];
        if (given.axes.size() >= state.dims[given.dim].axes.size())
            state.dims[given.dim].axes = given.axes;
        state.dims[given.dim].open = given.open;
        std::erase_if(state.blocked, [&](PartId part) { return holds(given.axes, part); });
    }

    void add(int index)
    {
        const Op& op = graph_.ops[static_cast<std::size_t>(index)];
        OpEntry entry;
        entry.rule = rule_of(graph_, op);
        entry.operands = op.operands;
        entry.results = op.results;
        if (op.accumulate) { // the result uses the accumulator's buffer
            entry.operands.pop_back();
            ValueSharding& result = values_[op.results[0].index()];
            result = values_[op.operands.back().index()];
            for (ValueSharding::Dim& dim : result.dims)
                dim.open = false;
        }
        const auto same = [&](const FactorList& dims) {
            return dims.empty() || dims == entry.rule.operands[0];
        };
        entry.elementwise = !entry.rule.operands.empty() && std::ranges::all_of(entry.rule.operands, same) &&
                            std::ranges::all_of(entry.rule.results, same) &&
                            std::ranges::all_of(entry.rule.factors, [](const Factor& f) {
                                return f.kind == FactorKind::parallel;
                            });
        entry.passes = entry.elementwise || info(op).reshapes;
        entry.boundary = info(op).placement && op.region == Region::microbatch &&
                         std::ranges::find(graph_.outputs, op.results[0]) != graph_.outputs.end();
        for (const ValueId v : entry.operands) {
            users_[v.index()].push_back(index);
            ++uses_[v.index()];
        }
        ops_.push_back(std::move(entry));
    }

    /// Values of a manual region cannot be sharded over its axes.
    void mark_manual()
    {
        for (std::size_t i = 0; i < values_.size(); ++i)
            for (const PartId part : parts_.manual(ValueId(i)))
                values_[i].blocked.push_back(part);
    }

    /// One level of op priorities, until nothing changes: first the outputs' shardings, then all ops from the
    /// first one on, each followed by the ops that read or made what it changed.
    void sweep(int level)
    {
        const auto boundaries = [&] {
            for (std::size_t i = 0; i < ops_.size(); ++i)
                if (ops_[i].boundary)
                    propagate_op(static_cast<int>(i), op_levels - 1, false);
        };
        boundaries();
        for (std::size_t i = ops_.size(); i-- > 0;)
            push(static_cast<int>(i));
        while (!stack_.empty()) {
            const int op = stack_.back();
            stack_.pop_back();
            queued_[static_cast<std::size_t>(op)] = false;
            propagate_op(op, level, true);
        }
        boundaries();
    }

    void push(int op)
    {
        if (queued_[static_cast<std::size_t>(op)] || ops_[static_cast<std::size_t>(op)].boundary)
            return;
        queued_[static_cast<std::size_t>(op)] = true;
        stack_.push_back(op);
    }

    /// Shardy's schedule of ops, each level with those before: what passes elements through and is the only
    /// user of its operands; the same with several users; dimensions that every op passes through; all but
    /// broadcasts forward; everything.
    Direction direction(int index, int factor, int level) const
    {
        const OpEntry& op = ops_[static_cast<std::size_t>(index)];
        const OpInfo& row = info(graph_.ops[static_cast<std::size_t>(index)]);
        if (op.rule[factor].blocked)
            return {};
        Direction way;
        if (op.passes || row.forward_first) {
            const bool single = std::ranges::all_of(op.operands, [&](ValueId v) {
                return uses_[v.index()] == 1 || graph_[v].type.shape.empty();
            });
            if (level >= 1 || single)
                way = {true, !row.forward_first};
        }
        if (level >= 3 || (level == 2 && passes_factor(op.rule, factor)))
            way = {way.forward || !row.expands, true};
        if (level >= 4)
            way = {true, true};
        return way;
    }

    static bool passes_factor(const FactorRule& rule, int factor)
    {
        return rule[factor].kind == FactorKind::parallel &&
               std::ranges::none_of(rule.factors,
                                    [&](const Factor& f) { return f.window && f.window->of == factor; });
    }

    void propagate_op(int index, int level, bool notify)
    {
        OpEntry& op = ops_[static_cast<std::size_t>(index)];
        // Most ops of a large graph have no sharded tensor until late.
        const auto any = [&](const std::vector<ValueId>& ids) {
            return std::ranges::any_of(ids, [&](ValueId v) { return values_[v.index()].sharded(); });
        };
        if (!any(op.operands) && !any(op.results) &&
            !info(graph_.ops[static_cast<std::size_t>(index)]).manual)
            return;
        Visit& now = visit_;
        now.versions = 0;
        now.ways.clear();
        for (const auto* ids : {&op.operands, &op.results})
            for (const ValueId v : *ids)
                now.versions += versions_[v.index()];
        for (std::size_t f = 0; f < op.rule.factors.size(); ++f)
            now.ways.push_back(direction(index, static_cast<int>(f), level));
        if (op.settled != now && !change_op(index, now.ways, notify))
            op.settled = now;
    }

    /// Carries axes between the op's tensors. Whether any changed.
    bool change_op(int index, const std::vector<Direction>& ways, bool notify)
    {
        const OpEntry& op = ops_[static_cast<std::size_t>(index)];
        const auto project = [&](const std::vector<ValueId>& ids, const std::vector<FactorList>& dims) {
            std::vector<FactorShardings> tensors;
            tensors.reserve(dims.size());
            for (std::size_t i = 0; i < dims.size(); ++i)
                tensors.emplace_back(op.rule, dims[i], graph_[ids[i]].type.shape, values_[ids[i].index()],
                                     parts_);
            return tensors;
        };
        std::vector<FactorShardings> operands = project(op.operands, op.rule.operands),
                                     results = project(op.results, op.rule.results);
        std::vector<PartList> axes;
        axes.reserve(ways.size());
        for (std::size_t f = 0; f < op.rule.factors.size(); ++f) {
            axes.push_back(
                compatible_axes(static_cast<int>(f), operands, results, ways[f].forward, ways[f].backward));
            if (!op.rule.factors[f].pinned.empty())
                axes.back() = parts_.parts_of(op.rule.factors[f].pinned);
        }
        if (std::ranges::all_of(axes, [](const PartList& list) { return list.empty(); }))
            return false;
        const std::vector<int> order = factor_order(op.rule, op.elementwise, axes, operands, results, parts_);
        for (FactorShardings& tensor : results)
            for (const int f : order)
                tensor.extend(f, axes[static_cast<std::size_t>(f)]);
        for (FactorShardings& tensor : operands)
            for (const int f : order) {
                PartList wanted = tensor.admissible(f, axes[static_cast<std::size_t>(f)]);
                if (op.elementwise) // not from operand to operand if the result cannot follow
                    for (const FactorShardings& result : results)
                        wanted = result.shorter(f, wanted);
                tensor.extend(f, wanted);
            }
        return write_all(index, operands, results, notify);
    }

    bool write_all(int index, const std::vector<FactorShardings>& operands,
                   const std::vector<FactorShardings>& results, bool notify)
    {
        const OpEntry& op = ops_[static_cast<std::size_t>(index)];
        bool changed = false;
        const auto write = [&](const std::vector<ValueId>& ids, const std::vector<FactorShardings>& from) {
            for (std::size_t i = 0; i < from.size(); ++i)
                if (from[i].changed())
                    changed = update(ids[i], from[i], index, notify) || changed;
        };
        write(op.operands, operands);
        write(op.results, results);
        return changed;
    }

    bool update(ValueId v, const FactorShardings& from, int by, bool notify)
    {
        ValueSharding& state = values_[v.index()];
        if (!from.write(state, by))
            return false;
        ++versions_[v.index()];
        if (!notify)
            return true;
        if (const OpId producer = graph_[v].producer; producer && static_cast<int>(producer.index()) != by)
            push(static_cast<int>(producer.index()));
        for (std::size_t i = users_[v.index()].size(); i-- > 0;)
            if (users_[v.index()][i] != by)
                push(users_[v.index()][i]);
        return true;
    }

    /// The sharding of a value in the graph: every dimension is closed, and knows which op set it.
    void finish(Value& v, const ValueSharding& state)
    {
        Sharding& sharding = v.sharding.edit();
        sharding.dims.resize(state.dims.size());
        for (std::size_t d = 0; d < state.dims.size(); ++d) {
            DimSharding& dim = sharding.dims[d];
            const std::size_t given = parts_.parts_of(dim.axes).size();
            dim.axes = parts_.names_of(state.dims[d].axes);
            dim.stated = -1;
            if (dim.open && sharding.replicated.empty()) {
                dim.stated = 0;
                for (std::size_t parts = 0; parts < given; ++dim.stated)
                    parts += parts_.parts_of(dim.axes[static_cast<std::size_t>(dim.stated)]).size();
            }
            dim.open = false;
            dim.priority = 0;
            dim.by = state.dims[d].by;
            if (dim.by >= 0 && sharding.origin.empty())
                sharding.origin = origin(graph_.ops[static_cast<std::size_t>(dim.by)]);
            else if (dim.by >= 0 && sharding.origin.starts_with("the "))
                sharding.origin +=
                    str("; ", dim.axes.back(), " by ", origin(graph_.ops[static_cast<std::size_t>(dim.by)]));
        }
        sharding.replicated.clear();
    }

    static std::string origin(const Op& op)
    {
        return (op.scope.empty() ? "" : op.scope + ".") + info(op).name;
    }

    Graph& graph_;
    AxisParts parts_;
    std::vector<ValueId> buffers_; ///< by value: that of which it accumulates, or itself
    std::vector<OpEntry> ops_;
    std::vector<ValueSharding> values_;
    std::vector<std::uint64_t> versions_; ///< by value: how often its sharding changed
    Visit visit_;                         ///< of propagate_op, kept for its memory
    std::vector<std::vector<int>> users_; ///< by value: the ops that read it
    std::vector<int> uses_;               ///< by value: operands and outputs that it is
    std::vector<Given> given_;
    std::vector<int> stack_;
    std::vector<bool> queued_;
};

} // namespace

Graph propagate(Graph graph)
{
    Propagation(graph).run();
    return graph;
}

Graph complete_annotations(Graph graph)
{
    Graph done = propagate(graph);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
        Value& v = graph.values[i];
        v.sharding = std::move(done.values[i].sharding);
        const bool at_rest =
            v.role == Role::parameter || (v.producer && graph[v.producer].region == Region::prologue &&
                                          !info(graph[v.producer]).placement);
        for (DimSharding& dim : v.sharding.edit().dims) {
            dim.by = -1;
            dim.open = at_rest;
        }
    }
    return graph;
}

} // namespace trivium
