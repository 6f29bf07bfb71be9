#include "passes/sharding/lookahead.hpp"

#include "passes/sharding/elimination.hpp"
#include "passes/sharding/op_plans.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace trivium {

namespace {

/// The most options of an op, beyond which it has only those of the op alone: in a zone of few ops, and of
/// more. Each pair of layouts may need a search for its moves.
constexpr std::size_t few_ops = 8, most_of_few = 64, most_options = 16;
constexpr std::size_t most_shared = 8;      ///< needs of one value that several readers share
constexpr std::size_t small_work = 1 << 19; ///< entries of all tables: a small problem may have larger ones
constexpr int reach = 3;                    ///< from the values that move, in ops

class Lookahead {
public:
    Lookahead(const Graph& graph, const PartitionConfig& config)
        : g_(graph), ops_(graph, config, sums_that_wait(graph)), variables_(graph.ops.size(), none),
          free_(graph.values.size(), false), held_(graph.values.size(), false), readers_(graph.values.size())
    {
        for (std::size_t i = 0; i < g_.values.size(); ++i) {
            const Value& v = g_.values[i];
            free_[i] = v.producer && open(v.sharding) && v.lifetime == Lifetime::microbatch &&
                       v.sharding->partial.empty() && ops_.plain(g_[v.producer]);
        }
        for (const ValueId v : g_.outputs) {
            free_[v.index()] = false;
            held_[v.index()] = true;
        }
        for (std::size_t o = 0; o < g_.ops.size(); ++o) {
            const Op& op = g_.ops[o];
            for (std::size_t i = 0; i < op.operands.size(); ++i) {
                const std::size_t v = op.operands[i].index();
                readers_[v].emplace_back(o, i);
                if (!ops_.plain(op)) {
                    free_[v] = false;
                    held_[v] = true;
                }
            }
        }
    }

    Graph run()
    {
        choose_zone();
        Graph made = g_;
        if (zone_.empty())
            return made;
        // Prices on large meshes take longer, and many axes have very many options.
        const std::size_t most =
            zone_.size() > few_ops
                ? most_options
                : std::clamp(4096 / static_cast<std::size_t>(g_.mesh.ranks()), most_options, most_of_few);
        for (const std::size_t o : zone_) {
            ops_.widen(o, most);
            variables_[o] = variable(ops_.of(o).options.size(), ops_.of(o).chosen);
        }
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            tabulate(ValueId(i));
        for (const std::size_t o : zone_) {
            CostTable own{{variables_[o]}, {}};
            for (const OpOption& option : ops_.of(o).options)
                own.costs.push_back(option.own);
            problem_.tables.push_back(std::move(own));
        }
        const std::vector<std::size_t> best =
            cheapest(problem_, start_, std::max(elimination_limit, small_work / start_.size()));
        const auto option_of = [&](std::size_t o) -> const OpOption& {
            return ops_.of(o).options[best[variables_[o]]];
        };
        for (const std::size_t o : zone_) {
            for (const PartList& axes : option_of(o).assignment)
                made.ops[o].division.push_back(ops_.parts().names_of(axes));
            made.ops[o].stays_partial = option_of(o).pending;
        }
        for (const ValueId v : joined_) {
            int chosen = homes_.at(v).candidates[best[homes_.at(v).variable]];
            if (chosen == unsettled) // nothing reads it complete
                chosen =
                    ops_.prices().without_partial(option_of(g_[v].producer.index()).made[ops_.result_of(v)]);
            const DimAxes axes = ops_.prices().layout(chosen).axes;
            if (!allowed(v, axes))
                continue;
            Sharding& sharding = made[v].sharding.edit();
            for (std::size_t d = 0; d < axes.size(); ++d)
                sharding.dims[d].axes = axes[d];
        }
        return made;
    }

private:
    static constexpr int unsettled = -1;
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    struct Home {
        std::vector<int> candidates; ///< layouts; unsettled: it is complete nowhere
        std::size_t variable = none;
    };

    static bool open(const Sharding& sharding)
    {
        return std::ranges::any_of(sharding.dims, [](const DimSharding& dim) { return dim.stated >= 0; });
    }

    /// Whether the value may have these axes: what an annotation states stays, more only where it is open,
    /// and no shard is empty.
    bool allowed(ValueId v, const DimAxes& axes) const
    {
        for (std::size_t d = 0; d < axes.size(); ++d) {
            const DimSharding& dim = g_[v].sharding->dims[d];
            if (g_.mesh.parts_along(axes[d]) > std::max<i64>(g_[v].type.shape[d], 1) && axes[d] != dim.axes)
                return false;
            const std::size_t stated =
                dim.stated < 0 ? dim.axes.size() : static_cast<std::size_t>(dim.stated);
            if (axes[d].size() < stated || (dim.stated < 0 && axes[d].size() > stated) ||
                !std::equal(axes[d].begin(), axes[d].begin() + static_cast<std::ptrdiff_t>(stated),
                            dim.axes.begin()))
                return false;
        }
        return true;
    }

    /// Whether the op alone would move any of its tensors.
    bool moves(std::size_t o)
    {
        const Op& op = g_.ops[o];
        const OpOption& option = ops_.chosen(o);
        for (std::size_t i = 0; i < option.needs.size(); ++i)
            if (ops_.bytes(ops_.home(op.operands[i]), option.needs[i], op.operands[i]) > 0)
                return true;
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (ops_.bytes(option.made[r], ops_.home(op.results[r]), op.results[r]) > 0)
                return true;
        return false;
    }

    /// The free values next to ops that move a tensor, those within reach of them, and the ops next to all of
    /// these.
    void choose_zone()
    {
        std::vector<ValueId> now;
        const auto look = [&](const std::vector<ValueId>& tensors, std::vector<ValueId>& into) {
            for (const ValueId v : tensors)
                if (free_[v.index()])
                    into.push_back(v);
        };
        for (std::size_t o = 0; o < g_.ops.size(); ++o)
            if (ops_.plain(g_.ops[o]) && moves(o)) {
                look(g_.ops[o].operands, now);
                look(g_.ops[o].results, now);
            }
        std::set<std::size_t> zone;
        for (int step = 0; step <= reach && !now.empty(); ++step) {
            std::vector<ValueId> next;
            for (const ValueId v : now) {
                if (!joined_.insert(v).second)
                    continue;
                const auto add = [&](std::size_t o) {
                    if (!ops_.plain(g_.ops[o]) || !zone.insert(o).second)
                        return;
                    look(g_.ops[o].operands, next);
                    look(g_.ops[o].results, next);
                };
                add(g_[v].producer.index());
                for (const auto& reader : readers_[v.index()])
                    add(reader.first);
            }
            now = std::move(next);
        }
        zone_.assign(zone.begin(), zone.end());
    }

    std::size_t variable(std::size_t size, std::size_t start)
    {
        problem_.sizes.push_back(size);
        start_.push_back(start);
        return start_.size() - 1;
    }

    /// How the option reads one of these operands as a partial sum, or null.
    static const Need* open_need(const OpOption& option, const std::vector<std::size_t>& operands)
    {
        const auto found =
            std::ranges::find_if(operands, [&](std::size_t i) { return option.needs[i].pending; });
        return found == operands.end() ? nullptr : &option.needs[*found];
    }

    /// Adds the costs of moving v from where it is computed over its home to all who read it.
    void tabulate(ValueId v)
    {
        std::map<std::size_t, std::vector<std::size_t>> by_reader; ///< operands, of ops of the zone
        std::set<std::pair<Phase, Need>> fixed;
        for (const auto& [o, i] : readers_[v.index()]) {
            if (!ops_.plain(g_.ops[o]) || i >= ops_.of(o).sharding->rule().operands.size())
                continue;
            if (variables_[o] != none)
                by_reader[o].push_back(i);
            else
                fixed.emplace(g_.ops[o].phase, ops_.chosen(o).needs[i]);
        }
        const bool made_here = g_[v].producer && variables_[g_[v].producer.index()] != none;
        if (!made_here && by_reader.empty())
            return;
        Home own = candidates(v, by_reader, made_here);
        const bool nobody = own.candidates.back() == unsettled && fixed.empty() && !by_reader.empty() &&
                            std::ranges::all_of(by_reader, [&](const auto& reader) {
                                return open_need(ops_.chosen(reader.first), reader.second) != nullptr;
                            });
        own.variable = variable(own.candidates.size(), nobody ? own.candidates.size() - 1 : 0);
        const auto& all = homes_.emplace(v, std::move(own)).first->second;
        if (made_here)
            settle(v, all);
        CostTable alone{{all.variable}, {}};
        for (const int from : all.candidates) {
            double sum = 1e-6 * (from == unsettled ? 0 : ops_.prices().size(from, v));
            for (const auto& need : fixed)
                sum += ops_.bytes(from, need.second, v);
            alone.costs.push_back(sum);
        }
        problem_.tables.push_back(std::move(alone));
        read(v, all, by_reader, fixed);
    }

    Home candidates(ValueId v, const std::map<std::size_t, std::vector<std::size_t>>& by_reader,
                    bool made_here)
    {
        Home all;
        const auto add = [&](int layout) {
            if (allowed(v, ops_.prices().layout(layout).axes) &&
                std::ranges::find(all.candidates, layout) == all.candidates.end())
                all.candidates.push_back(layout);
        };
        add(ops_.home(v));
        if (joined_.count(v)) {
            std::set<int> made, needed;
            const OpPlan& producer = ops_.of(g_[v].producer.index());
            const auto made_by = [&](const OpOption& option) {
                return ops_.prices().without_partial(option.made[ops_.result_of(v)]);
            };
            for (const OpOption& option : producer.options)
                made.insert(made_by(option));
            add(made_by(producer.options[producer.chosen]));
            for (const auto& [o, operands] : by_reader)
                for (const OpOption& option : ops_.of(o).options)
                    for (const std::size_t i : operands)
                        if (!option.needs[i].pending) {
                            needed.insert(option.needs[i].layout);
                            if (&option == &ops_.chosen(o))
                                add(option.needs[i].layout);
                        }
            // In large zones, beyond the start, only those that save a move.
            const bool few = zone_.size() <= few_ops;
            for (const int layout : made)
                if (few || needed.count(layout))
                    add(layout);
            for (const int layout : needed)
                if (few || made.count(layout))
                    add(layout);
            // What is kept until a later phase takes no more memory than propagation intended.
            if (std::ranges::any_of(readers_[v.index()], [&](const auto& reader) {
                    return g_.ops[reader.first].phase != g_[g_[v].producer].phase;
                }))
                std::erase_if(all.candidates, [&](int layout) {
                    return ops_.prices().size(layout, v) > ops_.prices().size(all.candidates[0], v);
                });
        }
        if (made_here && !held_[v.index()])
            all.candidates.push_back(unsettled);
        return all;
    }

    void settle(ValueId v, const Home& home)
    {
        const OpPlan& p = ops_.of(g_[v].producer.index());
        CostTable table{{variables_[g_[v].producer.index()], home.variable}, {}};
        for (const int to : home.candidates)
            for (const OpOption& option : p.options)
                table.costs.push_back(to == unsettled ? 0
                                                      : ops_.bytes(option.made[ops_.result_of(v)], to, v));
        problem_.tables.push_back(std::move(table));
    }

    /// The needs of the ops of the zone. A need that several may have is met once: it has a variable.
    void read(ValueId v, const Home& home, const std::map<std::size_t, std::vector<std::size_t>>& by_reader,
              const std::set<std::pair<Phase, Need>>& fixed)
    {
        std::map<std::pair<Phase, Need>, std::set<std::size_t>> who;
        for (const auto& [o, operands] : by_reader)
            for (const OpOption& option : ops_.of(o).options)
                for (const std::size_t i : operands)
                    if (!option.needs[i].pending)
                        who[{g_.ops[o].phase, option.needs[i]}].insert(o);
        std::map<std::pair<Phase, Need>, std::size_t> shared;
        const auto several = static_cast<std::size_t>(
            std::ranges::count_if(who, [](const auto& one) { return one.second.size() > 1; }));
        for (const auto& [need, ops] : who) {
            if (ops.size() < 2 || several > most_shared || fixed.count(need))
                continue;
            const bool now = std::ranges::any_of(ops, [&, &wanted = need.second](std::size_t o) {
                return std::ranges::any_of(by_reader.at(o), [&](std::size_t i) {
                    return ops_.of(o).options[ops_.of(o).chosen].needs[i] == wanted;
                });
            });
            const std::size_t copy = variable(2, now ? 1 : 0);
            shared[need] = copy;
            CostTable table{{home.variable, copy}, std::vector<double>(2 * home.candidates.size(), 0)};
            for (std::size_t h = 0; h < home.candidates.size(); ++h)
                table.costs[home.candidates.size() + h] = ops_.bytes(home.candidates[h], need.second, v);
            problem_.tables.push_back(std::move(table));
            for (const std::size_t o : ops) {
                CostTable needed{{variables_[o], copy},
                                 std::vector<double>(2 * ops_.of(o).options.size(), 0)};
                for (std::size_t a = 0; a < ops_.of(o).options.size(); ++a)
                    for (const std::size_t i : by_reader.at(o))
                        if (ops_.of(o).options[a].needs[i] == need.second)
                            needed.costs[a] = impossible_cost;
                problem_.tables.push_back(std::move(needed));
            }
        }
        for (const auto& [o, operands] : by_reader)
            read_one(v, home, o, operands, [&](const std::pair<Phase, Need>& need) {
                return shared.count(need) > 0 || fixed.count(need) > 0;
            });
    }

    /// What one reader needs that is not `met` already.
    template <class Met>
    void read_one(ValueId v, const Home& home, std::size_t o, const std::vector<std::size_t>& operands,
                  const Met& met)
    {
        const std::vector<OpOption>& options = ops_.of(o).options;
        CostTable table{{variables_[o], home.variable}, {}};
        bool any_pending = false;
        for (const int from : home.candidates)
            for (const OpOption& option : options) {
                std::set<Need> mine;
                for (const std::size_t i : operands)
                    if (!met({g_.ops[o].phase, option.needs[i]}))
                        mine.insert(option.needs[i]);
                double sum = 0;
                for (const Need& need : mine)
                    sum += ops_.bytes(from, need, v);
                table.costs.push_back(sum);
                any_pending = any_pending || open_need(option, operands);
            }
        problem_.tables.push_back(std::move(table));
        if (!any_pending)
            return;
        const OpPlan& p = ops_.of(g_[v].producer.index());
        const std::size_t producer = variables_[g_[v].producer.index()];
        const bool varies = producer != none;
        CostTable same{varies ? std::vector<std::size_t>{producer, variables_[o]}
                              : std::vector<std::size_t>{variables_[o]},
                       {}};
        for (const OpOption& option : options) {
            const Need* const need = open_need(option, operands);
            for (std::size_t a = varies ? 0 : p.chosen; a < (varies ? p.options.size() : p.chosen + 1); ++a)
                same.costs.push_back(
                    need && p.options[a].made[ops_.result_of(v)] != need->layout ? impossible_cost : 0);
        }
        problem_.tables.push_back(std::move(same));
    }

    const Graph& g_;
    OpPlans ops_;
    std::vector<std::size_t> variables_; ///< by op: that of its choice, or none
    std::vector<bool> free_;             ///< by value: its sharding may be chosen
    std::vector<bool> held_;             ///< by value: it must be complete, for outputs and special readers
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> readers_; ///< by value: op and operand
    std::vector<std::size_t> zone_;                                         ///< ops that may change
    std::set<ValueId> joined_;                                              ///< values that may change
    std::map<ValueId, Home> homes_;
    CostProblem problem_;
    std::vector<std::size_t> start_;
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
        if (op.accumulate && linear_operands(graph, op) == all_operands &&
            graph[op.operands.back()].role == Role::carry && readers[op.operands.back().index()] == 1 &&
            readers[op.operands[0].index()] == 1)
            sums[op.operands[0].index()] = true;
    return sums;
}

std::vector<int> later_readers(const Graph& graph)
{
    std::vector<int> readers(graph.values.size(), 0);
    for (const Op& op : graph.ops)
        if (op.phase != Phase::forward)
            for (const ValueId v : op.operands)
                readers[v.index()] += graph[v].lifetime == Lifetime::microbatch ? 1 : 0;
    return readers;
}

Graph look_ahead(const Graph& graph, const PartitionConfig& config)
{
    const bool alone = std::ranges::all_of(graph.mesh.axes, [&](const MeshAxis& axis) {
        return axis.size == 1 || axis.name == config.stage_axis;
    });
    return alone ? graph : Lookahead(graph, config).run();
}

} // namespace trivium
