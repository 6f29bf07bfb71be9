#include "passes/lookahead.hpp"

#include "passes/sharding/pricing.hpp"

#include <algorithm>
#include <memory>
#include <set>

namespace trivium {

namespace {

class Lookahead {
public:
    Lookahead(const Graph& graph, const PartitionConfig& config)
        : once_(config.once), pricing_(graph), g_(graph), parts_(graph, any_composed(graph)),
          stage_axis_(config.stage_axis), sums_(sums_that_wait(graph)), ops_(graph.ops.size()),
          free_(graph.values.size(), false), readers_(graph.values.size())
    {
        for (std::size_t i = 0; i < g_.values.size(); ++i) {
            const Value& v = g_.values[i];
            free_[i] = v.producer && !v.sharding.pinned && v.lifetime == Lifetime::microbatch &&
                       v.sharding.partial.empty() && plain(g_[v.producer]);
        }
        for (const ValueId v : g_.outputs)
            free_[v.index()] = false;
        for (std::size_t o = 0; o < g_.ops.size(); ++o) {
            const Op& op = g_.ops[o];
            for (std::size_t i = 0; i < op.operands.size(); ++i) {
                readers_[op.operands[i].index()].emplace_back(o, i);
                if (!plain(op))
                    free_[op.operands[i].index()] = false;
            }
        }
    }

    Graph run()
    {
        for (std::size_t v = 0; v < free_.size(); ++v)
            if (free_[v] && worth_a_look(ValueId(v)))
                join(ValueId(v));
        Graph made = g_;
        bool changed = !zone_.empty();
        for (int sweep = 0; changed && sweep < 4; ++sweep) {
            changed = false;
            for (const std::size_t o : zone_)
                changed = improve(o) || changed;
        }
        for (const std::size_t o : zone_)
            for (const PartList& axes : plan(o).options[plan(o).chosen])
                made.ops[o].division.push_back(parts_.names_of(axes));
        for (std::size_t i = 0; i < free_.size(); ++i)
            if (const ValueId v(i); free_[i] && known(v)) {
                made[v].sharding = sharding_of({best_home(v).axes, {}});
                made[v].sharding.origin = g_[v].sharding.origin;
            }
        return made;
    }

private:
    struct Plan {
        std::unique_ptr<OpSharding> sharding;
        std::vector<Assignment> options;
        std::size_t chosen = 0;
    };
    struct Home {
        DimAxes axes;
        double bytes = 0, size = 0;
    };

    bool plain(const Op& op) const
    {
        const OpInfo& row = info(op);
        return !row.placement && !row.contributes && !row.communicates && !row.manual && !op.accumulate &&
               op.region == Region::microbatch &&
               std::all_of(op.results.begin(), op.results.end(),
                           [&](ValueId v) { return g_[v].sharding.partial.empty(); }) &&
               row.in_place.size() ==
                   static_cast<std::size_t>(std::count_if(row.in_place.begin(), row.in_place.end(),
                                                          [](const Alias& a) { return !a.must; }));
    }

    Plan& plan(std::size_t o)
    {
        if (ops_[o].sharding)
            return ops_[o];
        Plan& made = ops_[o];
        made.sharding = std::make_unique<OpSharding>(g_, g_.ops[o], parts_, stage_axis_);
        made.options = made.sharding->assignments();
        double least = 0;
        for (std::size_t a = 0; a < made.options.size(); ++a) {
            const double price = alone(o, a);
            if (a == 0 || price < least) {
                least = price;
                made.chosen = a;
            }
        }
        return made;
    }

    DimAxes home(ValueId v) const { return dim_axes(g_[v].sharding); }

    double bytes(const Layout& from, const DimAxes& to, ValueId v)
    {
        return pricing_.bytes_moved(from, to, g_[v], sums_[v.index()]);
    }

    double size(const DimAxes& axes, ValueId v) const
    {
        return static_cast<double>(
            local_type(g_[v].type, axes, g_.mesh, Coordinates(g_.mesh.axes.size(), 0)).bytes());
    }

    /// What an op moves if every tensor is at home: the choice of the op alone.
    double alone(std::size_t o, std::size_t option)
    {
        Plan& p = ops_[o];
        const Op& op = g_.ops[o];
        double all = 0, touched = 0;
        for (std::size_t i = 0; i < p.sharding->rule().operands.size(); ++i) {
            const DimAxes need = p.sharding->operand_axes(i, p.options[option]);
            all += bytes({home(op.operands[i]), {}}, need, op.operands[i]);
            touched += size(need, op.operands[i]);
        }
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            const Layout made = p.sharding->result_layout(r, p.options[option]);
            all += bytes(made, home(op.results[r]), op.results[r]);
            touched += size(made.axes, op.results[r]);
        }
        return all + 1e-3 * touched;
    }

    Layout made(ValueId v)
    {
        const Op& op = g_[g_[v].producer];
        const auto r =
            static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), v) - op.results.begin());
        Plan& p = plan(g_[v].producer.index());
        return p.sharding->result_layout(r, p.options[p.chosen]);
    }

    /// The shardings in which ops read it, each phase once.
    std::set<std::pair<Phase, DimAxes>> needs(ValueId v)
    {
        std::set<std::pair<Phase, DimAxes>> all;
        for (const auto& [o, i] : readers_[v.index()]) {
            const Op& op = g_.ops[o];
            if (!plain(op) || i >= plan(o).sharding->rule().operands.size())
                continue;
            all.emplace(op.phase, plan(o).sharding->operand_axes(i, plan(o).options[plan(o).chosen]));
        }
        return all;
    }

    double cost_with(ValueId v, const Layout& native, const DimAxes& axes,
                     const std::set<std::pair<Phase, DimAxes>>& all)
    {
        double sum = bytes(native, axes, v);
        for (const auto& need : all)
            sum += bytes({axes, {}}, need.second, v);
        return sum;
    }

    Home best_home(ValueId v)
    {
        const Layout native = made(v);
        const auto all = needs(v);
        std::vector<DimAxes> candidates{home(v), native.axes};
        for (const auto& need : all)
            candidates.push_back(need.second);
        // What is kept until a later phase takes no more memory than propagation intended.
        const bool kept = std::any_of(
            all.begin(), all.end(), [&](const auto& need) { return need.first != g_[g_[v].producer].phase; });
        Home best{};
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            if (kept && size(candidates[c], v) > size(candidates[0], v))
                continue;
            const Home one{candidates[c], cost_with(v, native, candidates[c], all), size(candidates[c], v)};
            if (c == 0 || one.bytes < best.bytes - 1e-9 ||
                (one.bytes <= best.bytes + 1e-9 && one.size < best.size))
                best = one;
        }
        return best;
    }

    double value_cost(ValueId v)
    {
        if (free_[v.index()])
            return best_home(v).bytes;
        Layout native{home(v), {}};
        if (g_[v].producer && plain(g_[g_[v].producer]))
            native = made(v);
        double sum = bytes(native, home(v), v);
        for (const auto& need : needs(v)) {
            const double moved = bytes({home(v), {}}, need.second, v);
            sum += moved * (outlives_microbatch(g_, v) && !once_ ? 1e9 : 1);
        }
        return sum;
    }

    /// Whether it moves by the choices of each op alone.
    bool worth_a_look(ValueId v) { return cost_with(v, made(v), home(v), needs(v)) > 0; }

    bool known(ValueId v) const { return ops_[g_[v].producer.index()].sharding != nullptr && in_zone(v); }
    bool in_zone(ValueId v) const { return joined_.count(v) > 0; }

    void join(ValueId v)
    {
        joined_.insert(v);
        const auto add = [&](std::size_t o) {
            if (plain(g_.ops[o]) && known_.insert(o).second)
                zone_.push_back(o);
        };
        add(g_[v].producer.index());
        for (const auto& reader : readers_[v.index()])
            add(reader.first);
        std::sort(zone_.begin(), zone_.end());
    }

    /// Gives the op its best choice among its neighbours' current ones; whether that is another one.
    bool improve(std::size_t o)
    {
        Plan& p = plan(o);
        const Op& op = g_.ops[o];
        std::set<ValueId> around(op.operands.begin(), op.operands.end());
        around.insert(op.results.begin(), op.results.end());
        const std::size_t before = p.chosen;
        std::size_t best = before;
        double least = 0;
        const auto price = [&](std::size_t option) {
            p.chosen = option;
            double sum = 0, touched = 0;
            for (const ValueId v : around)
                sum += value_cost(v);
            for (std::size_t i = 0; i < p.sharding->rule().operands.size(); ++i)
                touched += size(p.sharding->operand_axes(i, p.options[option]), op.operands[i]);
            for (std::size_t r = 0; r < op.results.size(); ++r)
                touched += size(p.sharding->result_layout(r, p.options[option]).axes, op.results[r]);
            return sum + 1e-3 * touched;
        };
        least = price(before);
        for (std::size_t a = 0; a < p.options.size(); ++a)
            if (a != before)
                if (const double cost = price(a); cost < least * (1 - 1e-9)) {
                    least = cost;
                    best = a;
                }
        p.chosen = best;
        return best != before;
    }

    bool once_;
    Pricing pricing_;
    const Graph& g_;
    AxisParts parts_;
    std::string stage_axis_;
    std::vector<bool> sums_;
    std::vector<Plan> ops_;
    std::vector<bool> free_; ///< by value: its sharding may be chosen
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> readers_; ///< by value: op and operand
    std::vector<std::size_t> zone_;                                         ///< ops that may change
    std::set<std::size_t> known_;
    std::set<ValueId> joined_;
};

} // namespace

std::vector<bool> sums_that_wait(const Graph& graph)
{
    std::vector<bool> sums(graph.values.size(), false);
    std::vector<int> readers(graph.values.size(), 0);
    for (const Op& op : graph.ops)
        for (const ValueId v : op.operands)
            ++readers[v.index()];
    for (const Op& op : graph.ops)
        if (op.accumulate && info(op).linear && graph[op.operands.back()].role == Role::carry &&
            readers[op.operands.back().index()] == 1 && readers[op.operands[0].index()] == 1)
            sums[op.operands[0].index()] = true;
    return sums;
}

Graph look_ahead(const Graph& graph, const PartitionConfig& config) { return Lookahead(graph, config).run(); }

} // namespace trivium
