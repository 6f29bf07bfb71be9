#include "passes/lookahead.hpp"

#include "passes/sharding/elimination.hpp"
#include "passes/sharding/pricing.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace trivium {

namespace {

constexpr double impossible = 1e30;
constexpr std::size_t most_options = 256;   ///< of an op, or only those of the op alone
constexpr std::size_t most_shared = 8;      ///< needs of one value that several readers share
constexpr int reach = 6;                    ///< from the values that move, in ops

/// Layouts by number, and the bytes from one to another.
class Prices {
public:
    explicit Prices(const Graph& graph) : g_(graph), pricing_(graph) {}

    int number(const Layout& layout)
    {
        std::vector<std::string> key;
        for (const auto& dim : layout.axes) {
            key.insert(key.end(), dim.begin(), dim.end());
            key.emplace_back("|");
        }
        for (const Partial& p : layout.partial) {
            key.push_back(p.axis);
            key.emplace_back(name_of(p.combine));
        }
        const auto [at, added] = numbers_.try_emplace(std::move(key), static_cast<int>(layouts_.size()));
        if (added)
            layouts_.push_back(layout);
        return at->second;
    }
    const Layout& layout(int number) const { return layouts_[static_cast<std::size_t>(number)]; }

    double bytes(int from, int to, ValueId v, bool sums_wait)
    {
        if (from == to)
            return 0;
        const u64 key = ((static_cast<u64>(shape(v)) << 20 | static_cast<u64>(from)) << 20 |
                         static_cast<u64>(to))
                            << 1 |
                        (sums_wait ? 1 : 0);
        const auto [at, added] = bytes_.try_emplace(key, 0.0);
        if (added)
            at->second = pricing_.bytes_moved(layout(from), layout(to).axes, g_[v], sums_wait);
        return at->second;
    }

    /// Of the largest shard.
    double size(int number, ValueId v)
    {
        const u64 key = static_cast<u64>(shape(v)) << 20 | static_cast<u64>(number);
        const auto [at, added] = sizes_.try_emplace(key, 0.0);
        if (added)
            at->second = static_cast<double>(local_type(g_[v].type, layout(number).axes, g_.mesh,
                                                        Coordinates(g_.mesh.axes.size(), 0))
                                                 .bytes());
        return at->second;
    }

    Pricing& pricing() { return pricing_; }

private:
    int shape(ValueId v)
    {
        const TensorType& type = g_[v].type;
        return shapes_.try_emplace({type.dtype, type.shape}, static_cast<int>(shapes_.size())).first->second;
    }

    const Graph& g_;
    Pricing pricing_;
    std::map<std::vector<std::string>, int> numbers_;
    std::vector<Layout> layouts_;
    std::map<std::pair<DType, Shape>, int> shapes_;
    std::unordered_map<u64, double> bytes_, sizes_;
};

class Lookahead {
public:
    Lookahead(const Graph& graph, const PartitionConfig& config)
        : once_(config.once), prices_(graph), g_(graph), parts_(graph, any_composed(graph)),
          stage_axis_(config.stage_axis), sums_(sums_that_wait(graph)), ops_(graph.ops.size()),
          free_(graph.values.size(), false), held_(graph.values.size(), false), readers_(graph.values.size())
    {
        for (std::size_t i = 0; i < g_.values.size(); ++i) {
            const Value& v = g_.values[i];
            free_[i] = v.producer && open(v.sharding) && v.lifetime == Lifetime::microbatch &&
                       v.sharding.partial.empty() && plain(g_[v.producer]);
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
                if (!plain(op)) {
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
        for (const std::size_t o : zone_)
            widen(o);
        for (std::size_t i = 0; i < g_.values.size(); ++i)
            tabulate(ValueId(i));
        for (const std::size_t o : zone_) {
            CostTable own{{ops_[o].variable}, {}};
            for (const Option& option : ops_[o].options)
                own.costs.push_back(option.own);
            problem_.tables.push_back(std::move(own));
        }
        const std::vector<std::size_t> best = cheapest(problem_, start_);
        for (const std::size_t o : zone_) {
            const Option& option = ops_[o].options[best[ops_[o].variable]];
            for (const PartList& axes : option.assignment)
                made.ops[o].division.push_back(parts_.names_of(axes));
            made.ops[o].stays_partial = option.pending;
        }
        for (const auto& [v, home] : homes_) {
            int chosen = home.candidates[best[home.variable]];
            if (chosen == unsettled)
                chosen = axes_of(ops_[g_[v].producer.index()]
                                     .options[best[ops_[g_[v].producer.index()].variable]]
                                     .made[result_of(v)]);
            if (!joined_.count(v))
                continue;
            made[v].sharding = sharding_of(prices_.layout(chosen));
            made[v].sharding.origin = g_[v].sharding.origin;
            made[v].sharding.pinned = g_[v].sharding.pinned;
        }
        return made;
    }

private:
    static constexpr int unsettled = -1;
    /// How an op reads a value: in a layout, as the partial sums that it has, or in boxes of its own.
    struct Need {
        int layout = -1;
        bool pending = false;
        int boxes = -1; ///< by number (special_)
        auto operator<=>(const Need&) const = default;
    };
    struct Special {
        std::size_t op = 0, operand = 0;
        Assignment assignment;
    };
    struct Option {
        Assignment assignment;
        std::vector<Need> needs; ///< by operand
        std::vector<int> made;   ///< by result
        double own = 0;          ///< the cost that depends on nothing else
        bool pending = false;
    };
    struct Plan {
        std::unique_ptr<OpSharding> sharding;
        std::vector<Option> options;
        std::size_t chosen = 0; ///< the op alone
        std::size_t variable = none;
    };
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    struct Home {
        std::vector<int> candidates;
        std::size_t variable = none;
    };

    static bool open(const Sharding& sharding)
    {
        return std::any_of(sharding.dims.begin(), sharding.dims.end(),
                           [](const DimSharding& dim) { return dim.stated >= 0; });
    }

    /// Whether the value may have these axes: what an annotation states stays, more only where it is open.
    bool allowed(ValueId v, const DimAxes& axes) const
    {
        for (std::size_t d = 0; d < axes.size(); ++d) {
            const DimSharding& dim = g_[v].sharding.dims[d];
            const std::size_t stated = dim.stated < 0 ? dim.axes.size() : static_cast<std::size_t>(dim.stated);
            if (axes[d].size() < stated || (dim.stated < 0 && axes[d].size() > stated) ||
                !std::equal(axes[d].begin(), axes[d].begin() + static_cast<std::ptrdiff_t>(stated),
                            dim.axes.begin()))
                return false;
        }
        return true;
    }

    bool plain(const Op& op) const
    {
        const OpInfo& row = info(op);
        return !row.placement && !row.contributes && !row.communicates && !row.manual && !op.accumulate &&
               op.region == Region::microbatch &&
               row.in_place.size() ==
                   static_cast<std::size_t>(std::count_if(row.in_place.begin(), row.in_place.end(),
                                                          [](const Alias& a) { return !a.must; }));
    }

    std::size_t result_of(ValueId v) const
    {
        const Op& op = g_[g_[v].producer];
        return static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                        op.results.begin());
    }

    Option option_of(std::size_t o, Assignment assignment)
    {
        const OpSharding& sharding = *ops_[o].sharding;
        const Op& op = g_.ops[o];
        Option made{std::move(assignment), {}, {}, 0, false};
        double touched = 0;
        for (std::size_t i = 0; i < sharding.rule().operands.size(); ++i) {
            Need need{prices_.number({sharding.operand_axes(i, made.assignment), {}}), false, -1};
            touched += prices_.size(need.layout, op.operands[i]);
            if (sharding.irregular_operand(i, made.assignment)) {
                need.boxes = static_cast<int>(special_.size());
                special_.push_back({o, i, made.assignment});
            }
            made.needs.push_back(need);
        }
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            made.made.push_back(prices_.number(sharding.result_layout(r, made.assignment)));
            touched += prices_.size(made.made[r], op.results[r]);
            if (sharding.irregular_result(r, made.assignment))
                made.own += prices_.pricing().bytes_exchanged(sharding, r, made.assignment, g_[op.results[r]]);
        }
        made.own += 1e-3 * touched;
        return made;
    }

    Plan& plan(std::size_t o)
    {
        Plan& made = ops_[o];
        if (made.sharding)
            return made;
        made.sharding = std::make_unique<OpSharding>(g_, g_.ops[o], parts_, stage_axis_);
        double least = 0;
        for (Assignment& assignment : made.sharding->assignments()) {
            made.options.push_back(option_of(o, std::move(assignment)));
            const double price = alone(o, made.options.back());
            if (made.options.size() == 1 || price < least) {
                least = price;
                made.chosen = made.options.size() - 1;
            }
        }
        return made;
    }

    int home(ValueId v) { return prices_.number({dim_axes(g_[v].sharding), {}}); }
    int axes_of(int layout) { return prices_.number({prices_.layout(layout).axes, {}}); }

    double bytes(int from, int to, ValueId v) { return prices_.bytes(from, to, v, sums_[v.index()]); }

    double bytes(int from, const Need& need, ValueId v)
    {
        if (need.pending)
            return 0;
        if (from == unsettled)
            return impossible;
        const double rate =
            outlives_microbatch(g_, v) && !once_ ? 1e9 : 1; // it would move in every microbatch
        if (need.boxes < 0)
            return rate * bytes(from, need.layout, v);
        const auto [at, added] = approaches_.try_emplace({from, need.boxes}, 0.0);
        if (added) {
            const Special& special = special_[static_cast<std::size_t>(need.boxes)];
            at->second = prices_.pricing()
                             .approach(*ops_[special.op].sharding, special.operand, special.assignment,
                                       prices_.layout(from), g_[v])
                             .bytes;
        }
        return rate * at->second;
    }

    /// What an op moves if every tensor is at home: the choice of the op alone.
    double alone(std::size_t o, const Option& option)
    {
        const Op& op = g_.ops[o];
        double all = option.own;
        for (std::size_t i = 0; i < option.needs.size(); ++i)
            all += bytes(home(op.operands[i]), option.needs[i], op.operands[i]);
        for (std::size_t r = 0; r < op.results.size(); ++r)
            all += bytes(option.made[r], home(op.results[r]), op.results[r]);
        return all;
    }

    const Option& chosen(std::size_t o) { return plan(o).options[plan(o).chosen]; }

    /// Whether the op alone would move any of its tensors.
    bool moves(std::size_t o)
    {
        const Op& op = g_.ops[o];
        const Option& option = chosen(o);
        for (std::size_t i = 0; i < option.needs.size(); ++i)
            if (bytes(home(op.operands[i]), option.needs[i], op.operands[i]) > 0)
                return true;
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (bytes(option.made[r], home(op.results[r]), op.results[r]) > 0)
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
            if (plain(g_.ops[o]) && moves(o)) {
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
                    if (!plain(g_.ops[o]) || !zone.insert(o).second)
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

    /// All options of an op of the zone, and its variable.
    void widen(std::size_t o)
    {
        Plan& p = plan(o);
        const Assignment before = p.options[p.chosen].assignment;
        std::vector<Option> all;
        for (Assignment& assignment : p.sharding->all_assignments(most_options))
            all.push_back(option_of(o, std::move(assignment)));
        add_pending(o, all);
        p.options.clear();
        // Of those that differ in nothing that others see, the cheapest.
        std::map<std::pair<std::vector<Need>, std::vector<int>>, std::size_t> known;
        p.chosen = 0;
        for (Option& option : all) {
            const bool start = option.assignment == before && !option.pending;
            const auto [at, added] = known.try_emplace({option.needs, option.made}, p.options.size());
            if (start)
                p.chosen = at->second;
            if (added)
                p.options.push_back(std::move(option));
            else if (option.own < p.options[at->second].own)
                p.options[at->second] = std::move(option);
        }
        p.variable = variable(p.options.size(), p.chosen);
    }

    std::size_t variable(std::size_t size, std::size_t start)
    {
        problem_.sizes.push_back(size);
        start_.push_back(start);
        return start_.size() - 1;
    }

    /// A linear op may run on partial sums: those that the first operand's producer may make.
    void add_pending(std::size_t o, std::vector<Option>& all)
    {
        const Op& op = g_.ops[o];
        const Plan& p = ops_[o];
        if (!info(op).linear || op.operands.empty())
            return;
        i64 before = 0, after = 0;
        for (const ValueId v : op.operands) {
            before += g_[v].type.elements();
            const OpId producer = g_[v].producer;
            if (!producer || !plain(g_[producer]) || g_[producer].block != op.block ||
                g_[producer].phase != op.phase)
                return;
        }
        for (const ValueId v : op.results)
            after += g_[v].type.elements();
        if (after > before) // that would make the partial tensor larger
            return;
        std::set<int> layouts;
        for (const Option& option : plan(g_[op.operands[0]].producer.index()).options)
            layouts.insert(option.made[result_of(op.operands[0])]);
        for (const int number : layouts) {
            const Layout layout = prices_.layout(number);
            if (layout.partial.empty() ||
                std::any_of(layout.partial.begin(), layout.partial.end(),
                            [](const Partial& partial) { return partial.combine != Combine::sum; }))
                continue;
            const std::optional<Assignment> like = p.sharding->assignment_like(layout.axes);
            if (!like)
                continue;
            Option one = option_of(o, *like);
            one.pending = true;
            for (Need& need : one.needs)
                need = {number, true, -1};
            for (std::size_t r = 0; r < op.results.size(); ++r) {
                Layout made = p.sharding->result_layout(r, *like);
                made.partial = layout.partial;
                one.made[r] = prices_.number(made);
            }
            all.push_back(std::move(one));
        }
    }

    /// Adds the costs of moving v from where it is computed over its home to all who read it.
    void tabulate(ValueId v)
    {
        std::map<std::size_t, std::vector<std::size_t>> by_reader; ///< operands, of ops of the zone
        std::set<std::pair<Phase, Need>> fixed;
        for (const auto& [o, i] : readers_[v.index()]) {
            if (!plain(g_.ops[o]) || i >= plan(o).sharding->rule().operands.size())
                continue;
            if (ops_[o].variable != none)
                by_reader[o].push_back(i);
            else
                fixed.emplace(g_.ops[o].phase, chosen(o).needs[i]);
        }
        const bool made_here = g_[v].producer && ops_[g_[v].producer.index()].variable != none;
        if (!made_here && by_reader.empty())
            return;
        Home own = candidates(v, by_reader, made_here);
        own.variable = variable(own.candidates.size(), 0);
        const auto& all = homes_.emplace(v, std::move(own)).first->second;
        if (made_here)
            settle(v, all);
        CostTable alone{{all.variable}, {}};
        for (const int from : all.candidates) {
            double sum = 1e-6 * (from == unsettled ? 0 : prices_.size(from, v));
            for (const auto& need : fixed)
                sum += bytes(from, need.second, v);
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
            if (allowed(v, prices_.layout(layout).axes) &&
                std::find(all.candidates.begin(), all.candidates.end(), layout) == all.candidates.end())
                all.candidates.push_back(layout);
        };
        add(home(v));
        if (joined_.count(v)) {
            for (const Option& option : ops_[g_[v].producer.index()].options)
                add(axes_of(option.made[result_of(v)]));
            for (const auto& [o, operands] : by_reader)
                for (const Option& option : ops_[o].options)
                    for (const std::size_t i : operands)
                        if (!option.needs[i].pending)
                            add(option.needs[i].layout);
            // What is kept until a later phase takes no more memory than propagation intended.
            if (std::any_of(readers_[v.index()].begin(), readers_[v.index()].end(), [&](const auto& reader) {
                    return g_.ops[reader.first].phase != g_[g_[v].producer].phase;
                }))
                std::erase_if(all.candidates, [&](int layout) {
                    return prices_.size(layout, v) > prices_.size(all.candidates[0], v);
                });
        }
        if (made_here && !held_[v.index()])
            all.candidates.push_back(unsettled);
        return all;
    }

    void settle(ValueId v, const Home& home)
    {
        const Plan& p = ops_[g_[v].producer.index()];
        CostTable table{{p.variable, home.variable}, {}};
        for (const int to : home.candidates)
            for (const Option& option : p.options)
                table.costs.push_back(to == unsettled ? 0 : bytes(option.made[result_of(v)], to, v));
        problem_.tables.push_back(std::move(table));
    }

    /// The needs of the ops of the zone. A need that several may have is met once: it has a variable.
    void read(ValueId v, const Home& home, const std::map<std::size_t, std::vector<std::size_t>>& by_reader,
              const std::set<std::pair<Phase, Need>>& fixed)
    {
        std::map<std::pair<Phase, Need>, std::set<std::size_t>> who;
        for (const auto& [o, operands] : by_reader)
            for (const Option& option : ops_[o].options)
                for (const std::size_t i : operands)
                    if (!option.needs[i].pending)
                        who[{g_.ops[o].phase, option.needs[i]}].insert(o);
        std::map<std::pair<Phase, Need>, std::size_t> shared;
        const auto several = static_cast<std::size_t>(
            std::count_if(who.begin(), who.end(), [](const auto& one) { return one.second.size() > 1; }));
        for (const auto& [need, ops] : who) {
            if (ops.size() < 2 || several > most_shared || fixed.count(need))
                continue;
            const bool now = std::any_of(ops.begin(), ops.end(), [&](std::size_t o) {
                return std::any_of(by_reader.at(o).begin(), by_reader.at(o).end(), [&](std::size_t i) {
                    return ops_[o].options[ops_[o].chosen].needs[i] == need.second;
                });
            });
            const std::size_t copy = variable(2, now ? 1 : 0);
            shared[need] = copy;
            CostTable table{{home.variable, copy}, std::vector<double>(2 * home.candidates.size(), 0)};
            for (std::size_t h = 0; h < home.candidates.size(); ++h)
                table.costs[home.candidates.size() + h] = bytes(home.candidates[h], need.second, v);
            problem_.tables.push_back(std::move(table));
            for (const std::size_t o : ops) {
                CostTable needed{{ops_[o].variable, copy}, std::vector<double>(2 * ops_[o].options.size(), 0)};
                for (std::size_t a = 0; a < ops_[o].options.size(); ++a)
                    for (const std::size_t i : by_reader.at(o))
                        if (ops_[o].options[a].needs[i] == need.second)
                            needed.costs[a] = impossible;
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
        const std::vector<Option>& options = ops_[o].options;
        CostTable table{{ops_[o].variable, home.variable}, {}};
        bool any_pending = false;
        for (const int from : home.candidates)
            for (const Option& option : options) {
                std::set<Need> mine;
                for (const std::size_t i : operands)
                    if (!met({g_.ops[o].phase, option.needs[i]}))
                        mine.insert(option.needs[i]);
                double sum = 0;
                for (const Need& need : mine)
                    sum += bytes(from, need, v);
                table.costs.push_back(sum);
                any_pending = any_pending || option.pending;
            }
        problem_.tables.push_back(std::move(table));
        if (!any_pending)
            return;
        const Plan& p = plan(g_[v].producer.index());
        const bool varies = p.variable != none;
        CostTable same{varies ? std::vector<std::size_t>{p.variable, ops_[o].variable}
                              : std::vector<std::size_t>{ops_[o].variable},
                       {}};
        for (const Option& option : options)
            for (std::size_t a = varies ? 0 : p.chosen; a < (varies ? p.options.size() : p.chosen + 1); ++a)
                same.costs.push_back(option.pending &&
                                             p.options[a].made[result_of(v)] != option.needs[operands[0]].layout
                                         ? impossible
                                         : 0);
        problem_.tables.push_back(std::move(same));
    }

    bool once_;
    Prices prices_;
    const Graph& g_;
    AxisParts parts_;
    std::string stage_axis_;
    std::vector<bool> sums_;
    std::vector<Plan> ops_;
    std::vector<Special> special_;
    std::map<std::pair<int, int>, double> approaches_; ///< by layout and special need
    std::vector<bool> free_; ///< by value: its sharding may be chosen
    std::vector<bool> held_; ///< by value: it must be complete, for outputs and special readers
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
        if (op.accumulate && info(op).linear && graph[op.operands.back()].role == Role::carry &&
            readers[op.operands.back().index()] == 1 && readers[op.operands[0].index()] == 1)
            sums[op.operands[0].index()] = true;
    return sums;
}

Graph look_ahead(const Graph& graph, const PartitionConfig& config) { return Lookahead(graph, config).run(); }

} // namespace trivium
