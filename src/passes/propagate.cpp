#include "passes/propagate.hpp"

#include "base/check.hpp"
#include "ir/op_table.hpp"

#include <algorithm>
#include <optional>

namespace trivium {

namespace {

using Axes = std::vector<std::string>;

bool starts_with(const Axes& longer, const Axes& shorter)
{
    return longer.size() >= shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

class Propagation {
public:
    explicit Propagation(Graph& graph) : graph_(graph)
    {
        for (Value& v : graph_.values) {
            v.sharding.dims.resize(v.type.shape.size());
            for (DimSharding& dim : v.sharding.dims)
                std::erase_if(dim.axes, [&](const std::string& axis) { return graph_.mesh.size(axis) == 1; });
        }
        for (const Op& op : graph_.ops) {
            rules_.push_back(rule_of(graph_, op));
            if (op.accumulate) { // the result uses the accumulator's buffer
                graph_[op.results[0]].sharding = graph_[op.operands.back()].sharding;
                for (DimSharding& dim : graph_[op.results[0]].sharding.dims)
                    dim.open = false;
            }
        }
    }

    void run()
    {
        for (const bool all : {false, true})
            while (sweep(all))
                ;
        for (Value& v : graph_.values)
            for (DimSharding& dim : v.sharding.dims)
                dim.open = false;
    }

private:
    bool sweep(bool all)
    {
        bool changed = false;
        const auto visit = [&](std::size_t i) {
            if (all || passes_through(rules_[i]))
                changed = propagate_op(i) || changed;
        };
        for (std::size_t i = 0; i < graph_.ops.size(); ++i)
            visit(i);
        for (std::size_t i = graph_.ops.size(); i-- > 0;)
            visit(i);
        return changed;
    }

    static bool passes_through(const FactorRule& rule)
    {
        const auto same = [&](const FactorList& dims) { return dims.empty() || dims == rule.operands[0]; };
        return !rule.operands.empty() && std::all_of(rule.operands.begin(), rule.operands.end(), same) &&
               std::all_of(rule.results.begin(), rule.results.end(), same);
    }

    /// Calls visit(value, dimension, factor) for each dimension of each operand and result.
    template <class Visit>
    void each_dim(std::size_t i, Visit&& visit)
    {
        const Op& op = graph_.ops[i];
        const auto tensor = [&](ValueId v, const FactorList& dims) {
            for (std::size_t d = 0; d < dims.size(); ++d)
                visit(graph_[v], d, static_cast<std::size_t>(dims[d]));
        };
        for (std::size_t o = 0; o < rules_[i].operands.size(); ++o)
            tensor(op.operands[o], rules_[i].operands[o]);
        for (std::size_t r = 0; r < rules_[i].results.size(); ++r)
            tensor(op.results[r], rules_[i].results[r]);
    }

    bool propagate_op(std::size_t i)
    {
        const FactorRule& rule = rules_[i];
        std::vector<std::optional<Axes>> wanted(rule.factors.size(), Axes{});
        each_dim(i, [&](const Value& v, std::size_t d, std::size_t f) {
            const Axes& axes = v.sharding.dims[d].axes;
            if (rule.factors[f].kind == FactorKind::replicated || !wanted[f] || starts_with(*wanted[f], axes))
                return;
            if (starts_with(axes, *wanted[f]))
                wanted[f] = axes;
            else
                wanted[f].reset();
        });
        // An axis that could shard several factors is assigned to none of them.
        for (const MeshAxis& axis : graph_.mesh.axes) {
            const auto wants = [&](const std::optional<Axes>& axes) {
                return axes && std::find(axes->begin(), axes->end(), axis.name) != axes->end();
            };
            if (std::count_if(wanted.begin(), wanted.end(), wants) > 1)
                for (std::optional<Axes>& axes : wanted)
                    if (axes)
                        std::erase(*axes, axis.name);
        }
        bool changed = false;
        each_dim(i, [&](Value& v, std::size_t d, std::size_t f) {
            DimSharding& dim = v.sharding.dims[d];
            if (!dim.open || !wanted[f] || wanted[f]->size() <= dim.axes.size() ||
                !starts_with(*wanted[f], dim.axes))
                return;
            for (std::size_t a = dim.axes.size(); a < wanted[f]->size() && fits(v, d, (*wanted[f])[a]); ++a) {
                dim.axes.push_back((*wanted[f])[a]);
                std::string& by = v.sharding.origin;
                by = by.empty()               ? origin(graph_.ops[i])
                     : by.starts_with("the ") ? str(by, "; ", dim.axes.back(), " by ", origin(graph_.ops[i]))
                                              : by;
                changed = true;
            }
        });
        return changed;
    }

    /// Whether `axis` may also shard dimension d: it shards no other dimension, and every rank gets at least
    /// one row.
    bool fits(const Value& v, std::size_t d, const std::string& axis) const
    {
        i64 parts = graph_.mesh.size(axis);
        for (const std::string& a : v.sharding.dims[d].axes)
            parts *= graph_.mesh.size(a);
        return parts <= v.type.shape[d] &&
               std::none_of(v.sharding.dims.begin(), v.sharding.dims.end(), [&](const DimSharding& dim) {
                   return std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
               });
    }

    static std::string origin(const Op& op)
    {
        return (op.scope.empty() ? "" : op.scope + ".") + info(op).name;
    }

    Graph& graph_;
    std::vector<FactorRule> rules_;
};

} // namespace

Graph propagate(Graph graph)
{
    Propagation(graph).run();
    return graph;
}

} // namespace trivium
