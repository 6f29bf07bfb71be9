#include "choose/graph_search.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace trivium {

/// What a factor is to an op that combines two tensors: in the first and the result (samples, positions), in
/// the second and the result (outputs), in both operands alone (contracted), or in all three.
enum class FactorClass { samples, outputs, contracted, batched };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<FactorClass>{"samples", "outputs",
                                                                            "contracted", "batched"};

namespace {

/// The factor of an op that each searched axis shards; `open`: left to propagation.
using Division = std::vector<int>;
constexpr int open_factor = -1;

/// An op whose division is searched; of a line that is repeated, all its ops.
struct Anchor {
    std::vector<OpId> ops;
    std::vector<FactorRule> rules; ///< of each
    std::vector<int> free;         ///< factors that may be sharded
    std::string form;              ///< equal ones of repeated blocks have it in common

    const FactorRule& rule() const { return rules.front(); }
};

bool has_factor(const FactorRule& rule, const FactorList& dims, int factor)
{
    return std::ranges::any_of(dims, [&](int dim) {
        const std::span<const int> parts = rule.parts_of(dim);
        return std::ranges::find(parts, factor) != parts.end();
    });
}

FactorClass class_of(const FactorRule& rule, int factor)
{
    const bool a = has_factor(rule, rule.operands[0], factor), b = has_factor(rule, rule.operands[1], factor),
               c = has_factor(rule, rule.results[0], factor);
    return !c       ? FactorClass::contracted
           : a && b ? FactorClass::batched
           : b      ? FactorClass::outputs
                    : FactorClass::samples;
}

bool is_searched(const Graph& graph, const Op& op, const FactorRule& rule)
{
    const bool contracts = std::ranges::any_of(rule.factors, [](const Factor& f) {
        return f.kind == FactorKind::reduced || f.kind == FactorKind::indexed;
    });
    return op.phase == Phase::forward && op.operands.size() >= 2 && op.results.size() == 1 && contracts &&
           graph[op.results[0]].sharding->dims.empty();
}

class GraphSearch {
public:
    GraphSearch(const Graph& graph, const GraphSearchConfig& config) : graph_(graph), config_(config)
    {
        for (const MeshAxis& axis : graph.mesh.axes)
            if (axis.size > 1 && axis.name != pipeline_axis)
                axes_.push_back(axis);
        std::map<int, std::size_t> of_line;
        for (std::size_t i = 0; i < graph.ops.size(); ++i) {
            const Op& op = graph.ops[i];
            if (op.operands.size() < 2)
                continue;
            FactorRule rule = rule_of(graph, op);
            if (!is_searched(graph, op, rule))
                continue;
            const auto [known, added] = of_line.try_emplace(op.line, anchors_.size());
            if (op.line > 0 && !added) {
                anchors_[known->second].ops.emplace_back(i);
                anchors_[known->second].rules.push_back(std::move(rule));
                continue;
            }
            Anchor anchor{{OpId(i)}, {std::move(rule)}, {}, std::string(info(op).name)};
            for (int f = 0; f < static_cast<int>(anchor.rule().factors.size()); ++f)
                if (anchor.rule()[f].kind != FactorKind::replicated && !anchor.rule()[f].composed() &&
                    anchor.rule()[f].size > 1)
                    anchor.free.push_back(f);
            if (op.attrs->rule)
                anchor.form += " " + to_text(*op.attrs->rule);
            for (const ValueId v : op.operands)
                anchor.form += str(" ", to_string(graph[v].type), graph[v].role == Role::computed ? "" : "!");
            anchors_.push_back(std::move(anchor));
        }
    }

    GraphSearchResult run()
    {
        const std::vector<Division> nothing(anchors_.size(), Division(axes_.size(), open_factor));
        GraphSearchResult result;
        AnnotatedGraph given = annotated(nothing);
        config_.simulate(given); // if it cannot, the message says why
        known_[key_of(nothing)] = result.given = given.seconds;
        best_ = nothing;
        seconds_ = result.given;
        std::vector<std::pair<Seconds, std::vector<Division>>> starts{{result.given, nothing}};
        result.uniform.emplace_back("as given", std::move(given));
        try_uniform(result, starts);
        constexpr std::size_t most_starts = 3;
        std::ranges::sort(starts);
        starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
        starts.resize(std::min(starts.size(), most_starts));
        for (const auto& [seconds, divisions] : starts)
            descend(divisions, seconds);
        if (!std::isfinite(seconds_))
            throw UserError({graph_.file, str("needs more than the memory of '", config_.machine, "'"),
                             str("none of ", known_.size(), " shardings that were tried fits"),
                             "use more ranks, or a machine with more memory"});
        result.found = annotated(best_);
        result.found.seconds = seconds_;
        result.simulated = known_.size();
        return result;
    }

private:
    /// The graph with the annotations of the divisions; \throws UserError if an axis has more ranks than a
    /// dimension has elements
    AnnotatedGraph annotated(const std::vector<Division>& divisions) const
    {
        AnnotatedGraph made{graph_, {}, 0};
        std::set<ValueId> claimed;
        for (std::size_t n = 0; n < anchors_.size(); ++n)
            if (!std::ranges::all_of(divisions[n], [](int f) { return f == open_factor; }))
                for (std::size_t i = 0; i < anchors_[n].ops.size(); ++i)
                    annotate(made, claimed, graph_[anchors_[n].ops[i]], anchors_[n].rules[i], divisions[n]);
        return made;
    }

    /// Annotates the result of an op and its operands that no op computes, if nothing else has.
    void annotate(AnnotatedGraph& made, std::set<ValueId>& claimed, const Op& op, const FactorRule& rule,
                  const Division& division) const
    {
        const auto add = [&](ValueId v, const FactorList& dims) {
            if (!graph_[v].sharding->dims.empty() || !claimed.insert(v).second)
                return;
            Sharding& sharding = made.graph[v].sharding.edit();
            sharding.dims.resize(dims.size());
            for (std::size_t d = 0; d < dims.size(); ++d)
                for (std::size_t a = 0; a < axes_.size(); ++a) {
                    const std::span<const int> parts = rule.parts_of(dims[d]);
                    if (division[a] != open_factor && !parts.empty() && parts.front() == division[a]) {
                        sharding.dims[d].axes.push_back(axes_[a].name);
                        sharding.dims[d].open = false;
                    }
                }
            made.annotated.push_back(v);
        };
        for (std::size_t o = 0; o < op.operands.size() && o < rule.operands.size(); ++o)
            if (graph_[op.operands[o]].role != Role::computed)
                add(op.operands[o], rule.operands[o]);
        add(op.results[0], rule.results[0]);
    }

    static std::string key_of(const std::vector<Division>& divisions)
    {
        std::string key;
        for (const Division& division : divisions)
            for (const int factor : division)
                key += str(factor, " ");
        return key;
    }

    /// nullopt: there is no such program, or no tries are left.
    std::optional<Seconds> seconds_of(const std::vector<Division>& divisions)
    {
        const std::string key = key_of(divisions);
        const auto found = known_.find(key);
        if (found != known_.end())
            return found->second;
        if (known_.size() >= config_.tries)
            return std::nullopt;
        std::optional<Seconds> seconds;
        try {
            AnnotatedGraph made = annotated(divisions);
            config_.simulate(made);
            seconds = made.seconds;
        } catch (const Error&) { // such shardings are not legal
        }
        known_[key] = seconds;
        if (config_.progress && known_.size() % 50 == 0)
            config_.progress(str("search  ", known_.size(), " programs simulated"));
        return seconds;
    }

    /// For each axis: all ops share the same kind of factor.
    void try_uniform(GraphSearchResult& result,
                     std::vector<std::pair<Seconds, std::vector<Division>>>& starts)
    {
        struct Kind {
            FactorClass factors;
            int index; ///< among the factors of this class
        };
        constexpr Kind kinds[]{{FactorClass::samples, 0},    {FactorClass::samples, 1},
                               {FactorClass::samples, 2},    {FactorClass::outputs, 0},
                               {FactorClass::contracted, 0}, {FactorClass::batched, 0}};
        const std::size_t count = std::size(kinds);
        std::size_t all = 1;
        for (std::size_t a = 0; a < axes_.size(); ++a)
            all *= count;
        for (std::size_t number = 0; number < all && known_.size() < config_.tries / 2 + 1; ++number) {
            std::vector<Division> divisions(anchors_.size(), Division(axes_.size(), open_factor));
            std::string text;
            std::size_t rest = number;
            for (std::size_t a = 0; a < axes_.size(); ++a, rest /= count) {
                const Kind& kind = kinds[rest % count];
                text += str(a == 0 ? "" : ", ", axes_[a].name, ": ", name_of(kind.factors),
                            kind.index > 0 ? str(" (dimension ", kind.index + 1, ")") : "");
                for (std::size_t n = 0; n < anchors_.size(); ++n) {
                    int index = 0;
                    for (const int f : anchors_[n].free)
                        if (class_of(anchors_[n].rule(), f) == kind.factors && index++ == kind.index)
                            divisions[n][a] = f;
                }
            }
            const bool divides = std::ranges::any_of(divisions, [](const Division& division) {
                return std::ranges::any_of(division, [](int f) { return f != open_factor; });
            });
            const std::optional<Seconds> seconds = divides ? seconds_of(divisions) : std::nullopt;
            if (!seconds)
                continue;
            starts.emplace_back(*seconds, divisions);
            result.uniform.emplace_back(text, annotated(divisions)).second.seconds = *seconds;
        }
        std::ranges::stable_sort(result.uniform, {}, [](const auto& u) { return u.second.seconds; });
    }

    /// Changes single strategies as long as the time gets shorter.
    void descend(std::vector<Division> now, Seconds seconds)
    {
        const auto keep = [&] {
            if (seconds < seconds_) {
                seconds_ = seconds;
                best_ = now;
            }
        };
        keep();
        const auto consider = [&](const std::vector<Division>& changed) {
            const std::optional<Seconds> after = seconds_of(changed);
            if (!after || *after >= seconds * (1 - 1e-6))
                return false;
            now = changed;
            seconds = *after;
            keep();
            return true;
        };
        std::map<std::string, std::vector<std::size_t>> forms;
        for (std::size_t n = 0; n < anchors_.size(); ++n)
            forms[anchors_[n].form].push_back(n);
        for (bool better = true; better && known_.size() < config_.tries;) {
            better = false;
            for (const auto& [form, members] : forms)
                if (members.size() > 1)
                    for (std::size_t a = 0; a < axes_.size(); ++a)
                        for (const int f : choices(members.front(), a)) {
                            std::vector<Division> changed = now;
                            for (const std::size_t n : members)
                                changed[n][a] = f;
                            better = consider(changed) || better;
                        }
            for (std::size_t n = 0; n < anchors_.size(); ++n)
                for (std::size_t a = 0; a < axes_.size(); ++a)
                    for (const int f : choices(n, a)) {
                        std::vector<Division> changed = now;
                        changed[n][a] = f;
                        better = consider(changed) || better;
                    }
            for (std::size_t n = 0; n + 1 < anchors_.size() && !better; ++n)
                for (std::size_t a = 0; a < axes_.size(); ++a)
                    for (const int f : choices(n, a))
                        for (const int g : choices(n + 1, a)) {
                            std::vector<Division> changed = now;
                            changed[n][a] = f;
                            changed[n + 1][a] = g;
                            better = consider(changed) || better;
                        }
        }
    }

    /// What an axis may shard of an anchor.
    std::vector<int> choices(std::size_t anchor, std::size_t axis) const
    {
        std::vector<int> all{open_factor};
        for (const int f : anchors_[anchor].free)
            if (anchors_[anchor].rule()[f].size >= axes_[axis].size)
                all.push_back(f);
        return all;
    }

    const Graph& graph_;
    const GraphSearchConfig& config_;
    std::vector<MeshAxis> axes_; ///< that are searched
    std::vector<Anchor> anchors_;
    std::map<std::string, std::optional<Seconds>> known_; ///< by the text of the divisions
    std::vector<Division> best_;
    Seconds seconds_ = 0;
};

} // namespace

GraphSearchConfig program_search(const Machine& machine, i64 threads)
{
    GraphSearchConfig search;
    search.machine = machine.name;
    search.simulate = [=](AnnotatedGraph& made) {
        verify(made.graph, Level::global);
        const WorkPrices work = work_prices(machine, made.graph.mesh.ranks());
        Program program;
        program.graph = local_graph(sharded_graph(made.graph), 0, work);
        const MemoryPlan memory = lay_out({&program, 1}, {machine.scratch}).device;
        const bool fits = !machine.is_device || machine.memory == 0 || memory.arena <= machine.memory;
        made.seconds = fits ? simulate(program.graph, program.schedule, machine, threads).length() : INFINITY;
    };
    return search;
}

GraphSearchResult search_shardings(const Graph& graph, const GraphSearchConfig& config)
{
    return GraphSearch(graph, config).run();
}

} // namespace trivium
