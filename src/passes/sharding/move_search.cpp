#include "passes/sharding/move_search.hpp"

#include "base/words.hpp"
#include "passes/sharding/axis_parts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>

namespace trivium {

namespace {

/// Each axis part is in at most one place: in a dimension, or among those over which the tensor is partial.
struct State {
    std::vector<PartList> dims;
    PartList partial;
    bool exchanges = false; ///< the last move was an exchange: another one is part of it

    /// Different for different states. All parts of a mesh are few enough for a char.
    std::string key() const
    {
        constexpr char end = -1;
        std::string text(1, exchanges ? '1' : '0');
        for (const PartList& dim : dims)
            text.append(dim.begin(), dim.end()) += end;
        text.append(partial.begin(), partial.end());
        return text;
    }

    bool uses(PartId part) const
    {
        return holds(partial, part) ||
               std::ranges::any_of(dims, [&](const PartList& dim) { return holds(dim, part); });
    }
};

struct Step {
    MoveKind kind{};
    PartId part = -1;
    std::size_t dim = 0;
};

bool is_exchange(MoveKind kind) { return kind == MoveKind::all_to_all || kind == MoveKind::permute; }

class Search {
public:
    /// `divides`: all dimensions divide evenly, so axes may be divided. With `leaps`, one exchange may bring
    /// all parts into place, so that it need not be composed of smaller ones, whose combinations are very
    /// many, but which keep more where it is.
    Search(const Layout& from, const DimAxes& to, const Shape& whole, AxisParts parts, bool divides,
           bool leaps)
        : whole_(whole), divides_(divides), leaps_(leaps), parts_(std::move(parts))
    {
        for (std::size_t d = 0; d < to.size(); ++d) {
            first_.dims.push_back(parts_.parts_of(from.axes[d]));
            last_.dims.push_back(parts_.parts_of(to[d]));
        }
        for (const Partial& p : from.partial)
            for (const PartId part : parts_.parts_of(p.axis)) {
                first_.partial.push_back(part);
                combine_[part] = p.combine;
            }
    }

    /// A* (Hart, Nilsson & Raphael 1968); nothing if it reaches its limit.
    std::vector<Move> run(int* layouts)
    {
        const int most = leaps_ ? search_limit : few_layouts;
        relax(Cost{}, first_, {}, -1);
        const int limit = layouts ? std::min(most, *layouts) : most;
        int visited = 0;
        while (!queue_.empty()) {
            const int id = queue_.top().node;
            queue_.pop();
            if (nodes_[static_cast<std::size_t>(id)].done)
                continue;
            nodes_[static_cast<std::size_t>(id)].done = true;
            const State state = nodes_[static_cast<std::size_t>(id)].state;
            if (state.dims == last_.dims && state.partial.empty())
                return named(id);
            if (++visited > limit)
                break;
            if (layouts)
                --*layouts;
            expand(id, state);
        }
        return {};
    }

private:
    struct Cost {
        double elements = 0;
        int moves = 0;
        auto operator<=>(const Cost&) const = default;
    };
    struct Node {
        State state;
        Cost cost;
        Step step;
        int before = -1;
        bool done = false;
    };

    i64 shards(const State& state) const
    {
        i64 count = 1;
        for (const PartList& dim : state.dims)
            count *= parts_.ranks_along(dim);
        return count;
    }

    bool fits(const PartList& dim, std::size_t d) const
    {
        const i64 count = parts_.ranks_along(dim);
        // Parts of axes nest only in dimensions that divide evenly.
        return divides_ ? whole_[d] % count == 0 : count <= whole_[d];
    }

    void expand(int id, const State& state)
    {
        const double mine = static_cast<double>(element_count(whole_)) / static_cast<double>(shards(state));
        const auto go = [&](State next, MoveKind kind, PartId part, std::size_t dim, double moved) {
            next.exchanges = is_exchange(kind);
            // Neighbours become one move, so only the first counts; one exchange takes every element once.
            const bool another =
                id > 0 &&
                (next.exchanges ? state.exchanges : nodes_[static_cast<std::size_t>(id)].step.kind == kind);
            // Of equals, what reduces comes first.
            const double later = state.partial.empty() || kind == MoveKind::slice ? 0 : 1e-9 * mine;
            const bool reduces = kind == MoveKind::all_reduce || kind == MoveKind::reduce_scatter;
            relax_from(id, std::move(next), {kind, part, dim},
                       (is_exchange(kind) && another ? 0 : moved) + (reduces ? 0 : later),
                       kind == MoveKind::slice || another ? 0 : 1);
        };
        for (std::size_t d = 0; d < state.dims.size(); ++d)
            for (const PartId part : last_.dims[d])
                if (!state.uses(part)) {
                    State next = state;
                    next.dims[d].push_back(part);
                    if (fits(next.dims[d], d)) {
                        go(std::move(next), MoveKind::slice, part, d, 0);
                        break; // the others after it: slices cost nothing in any order
                    }
                }
        for (const PartId part : state.partial) {
            const auto n = static_cast<double>(parts_[part].size);
            State next = state;
            std::erase(next.partial, part);
            go(next, MoveKind::all_reduce, part, 0, 2 * mine * (n - 1) / n);
            for (std::size_t d = 0; d < state.dims.size() && combine_[part] == Combine::sum; ++d) {
                State scattered = next;
                scattered.dims[d].push_back(part);
                if (holds(last_.dims[d], part) && fits(scattered.dims[d], d))
                    go(std::move(scattered), MoveKind::reduce_scatter, part, d, mine * (n - 1) / n);
            }
        }
        for (std::size_t d = 0; d < state.dims.size(); ++d) {
            if (state.dims[d].empty())
                continue;
            const PartId part = state.dims[d].back();
            const auto n = static_cast<double>(parts_[part].size);
            State next = state;
            next.dims[d].pop_back();
            go(next, MoveKind::all_gather, part, d, mine * (n - 1));
            // The last axes become the last of another dimension, in its order.
            for (std::size_t e = 0; e < state.dims.size(); ++e) {
                State moved = state;
                PartList suffix;
                double all = 1;
                while (e != d && !moved.dims[d].empty() && holds(last_.dims[e], moved.dims[d].back())) {
                    suffix.push_back(moved.dims[d].back());
                    moved.dims[d].pop_back();
                    all *= static_cast<double>(parts_[suffix.back()].size);
                    std::ranges::sort(suffix, [&](PartId a, PartId b) {
                        return std::ranges::find(last_.dims[e], a) < std::ranges::find(last_.dims[e], b);
                    });
                    State joined = moved;
                    joined.dims[e].insert(joined.dims[e].end(), suffix.begin(), suffix.end());
                    if (fits(joined.dims[e], e))
                        go(std::move(joined), MoveKind::all_to_all, part, d, mine * (all - 1) / all);
                }
            }
        }
        permute(state, mine, go);
        for (const bool substitutes : {false, true})
            if (std::optional<State> placed = leaps_ ? in_place(state, substitutes) : std::nullopt)
                go(std::move(*placed), MoveKind::permute, -1, 0, mine);
    }

    /// The state with every part where `to` has it, as far as slices can add the missing ones behind them;
    /// with `substitutes`, parts that `to` does not have give their place to missing ones of their size.
    /// Other parts stay, behind those, or go where they fit.
    std::optional<State> in_place(const State& state, bool substitutes) const
    {
        PartList rest;
        for (const PartList& dim : state.dims)
            rest.insert(rest.end(), dim.begin(), dim.end());
        State placed{std::vector<PartList>(state.dims.size()), state.partial};
        bool substituted = false;
        for (std::size_t d = 0; d < last_.dims.size(); ++d)
            for (const PartId part : last_.dims[d]) {
                auto from = std::ranges::find(rest, part);
                if (from == rest.end() && substitutes && !state.uses(part)) {
                    from = std::ranges::find_if(rest, [&](PartId other) {
                        return !last_.uses(other) && parts_[other].size == parts_[part].size;
                    });
                    substituted = substituted || from != rest.end();
                }
                if (from == rest.end())
                    break;
                rest.erase(from);
                placed.dims[d].push_back(part);
            }
        if (substitutes && !substituted)
            return std::nullopt;
        for (std::size_t d = 0; d < state.dims.size(); ++d)
            for (const PartId part : state.dims[d]) {
                if (!holds(rest, part))
                    continue;
                std::size_t to = d;
                const auto fits_in = [&](std::size_t e) {
                    placed.dims[e].push_back(part);
                    const bool good = fits(placed.dims[e], e);
                    placed.dims[e].pop_back();
                    return good;
                };
                if (!fits_in(to))
                    for (to = 0; to < placed.dims.size() && !fits_in(to);)
                        ++to;
                if (to == placed.dims.size())
                    return std::nullopt;
                placed.dims[to].push_back(part);
            }
        if (placed.dims == state.dims)
            return std::nullopt;
        return placed;
    }

    /// Parts of one size change places, or one takes the place of another that shards nothing; neighbours in
    /// a dimension change their order.
    template <class Go>
    void permute(const State& state, double mine, const Go& go)
    {
        const double moved = mine; // at most; what some ranks keep is counted when the cost is computed
        for (std::size_t d = 0; d < state.dims.size(); ++d)
            for (std::size_t i = 0; i < state.dims[d].size(); ++i) {
                const PartId part = state.dims[d][i];
                if (i + 1 < state.dims[d].size() && parts_[part].size != parts_[state.dims[d][i + 1]].size) {
                    State next = state;
                    std::swap(next.dims[d][i], next.dims[d][i + 1]);
                    go(std::move(next), MoveKind::permute, part, d, moved);
                }
                for (std::size_t e = d; e < state.dims.size(); ++e)
                    for (std::size_t j = e == d ? i + 1 : 0; j < state.dims[e].size(); ++j)
                        if (parts_[state.dims[e][j]].size == parts_[part].size) {
                            State next = state;
                            std::swap(next.dims[d][i], next.dims[e][j]);
                            go(std::move(next), MoveKind::permute, part, d, moved);
                        }
                for (const PartList& dim : last_.dims)
                    for (const PartId other : dim)
                        if (!state.uses(other) && parts_[other].size == parts_[part].size) {
                            State next = state;
                            next.dims[d][i] = other;
                            go(std::move(next), MoveKind::permute, part, d, moved);
                        }
            }
    }

    void relax_from(int id, State next, Step step, double moved, int moves)
    {
        Cost cost = nodes_[static_cast<std::size_t>(id)].cost;
        cost.elements += moved;
        cost.moves += moves;
        relax(cost, std::move(next), step, id);
    }
    void relax(const Cost& cost, State state, Step step, int before)
    {
        const auto [at, added] = known_.try_emplace(state.key(), static_cast<int>(nodes_.size()));
        const int id = at->second;
        if (added)
            nodes_.push_back({std::move(state), cost, step, before});
        Node& node = nodes_[static_cast<std::size_t>(id)];
        if (!added && (node.done || !(cost < node.cost)))
            return;
        node.cost = cost;
        node.step = step;
        node.before = before;
        const Cost rest = at_least(node);
        queue_.push({{cost.elements + rest.elements, cost.moves + rest.moves},
                     rest.elements,
                     misplaced(node.state),
                     id});
    }

    /// Parts that are not where `to` has them, and those that belong there.
    std::size_t misplaced(const State& state) const
    {
        std::size_t count = state.partial.size();
        for (std::size_t d = 0; d < state.dims.size(); ++d) {
            const auto [mine, other] = std::ranges::mismatch(state.dims[d], last_.dims[d]);
            count += static_cast<std::size_t>((state.dims[d].end() - mine) + (last_.dims[d].end() - other));
        }
        return count;
    }

    /// What the way from a node to the end costs at least: a reduction of the shard that is left when all
    /// missing parts are sliced off, and the elements that the last shard has more than this one.
    Cost at_least(const Node& node) const
    {
        const State& state = node.state;
        const auto all = static_cast<double>(element_count(whole_));
        const i64 now = shards(state), end = shards(last_);
        Cost least;
        if (!state.partial.empty()) {
            const auto summands = static_cast<double>(parts_.ranks_along(state.partial));
            double local = all / static_cast<double>(now);
            for (const PartList& dim : last_.dims)
                for (const PartId part : dim)
                    local /= state.uses(part) ? 1.0 : static_cast<double>(parts_[part].size);
            least = {local * (summands - 1) / summands, 1};
        }
        if (now > end) {
            least.elements += all / static_cast<double>(end) - all / static_cast<double>(now);
            least.moves += node.before >= 0 && node.step.kind == MoveKind::all_gather ? 0 : 1;
        }
        return least;
    }

    DimAxes names(const State& state) const
    {
        DimAxes axes;
        for (const PartList& dim : state.dims)
            axes.push_back(parts_.names_of(dim));
        return axes;
    }

    /// The steps that lead to a node as moves, neighbours of one kind joined.
    std::vector<Move> named(int id) const
    {
        std::vector<int> path;
        for (; id > 0; id = nodes_[static_cast<std::size_t>(id)].before)
            path.push_back(id);
        std::ranges::reverse(path);
        std::vector<Move> moves;
        for (std::size_t i = 0; i < path.size();) {
            const int before = nodes_[static_cast<std::size_t>(path[i])].before;
            const Step first = nodes_[static_cast<std::size_t>(path[i])].step;
            const bool exchange = is_exchange(first.kind);
            MoveKind kind = first.kind;
            PartList list;
            std::size_t end = i;
            for (; end < path.size(); ++end) {
                const Step& step = nodes_[static_cast<std::size_t>(path[end])].step;
                if (exchange && is_exchange(step.kind)) {
                    kind = step.kind == MoveKind::all_to_all ? step.kind : kind;
                    continue;
                }
                if (step.kind != first.kind)
                    break;
                // The parts of a gather come from the last one on.
                PartList longer = list;
                longer.insert(first.kind == MoveKind::all_gather ? longer.begin() : longer.end(), step.part);
                if (step.dim != first.dim || parts_.names_of(longer).size() > 1)
                    break;
                list = std::move(longer);
            }
            const State &from = nodes_[static_cast<std::size_t>(before)].state,
                        &to = nodes_[static_cast<std::size_t>(path[end - 1])].state;
            Move move{kind, exchange ? group(from, to) : parts_.names_of(list)[0], first.dim,
                      combine_.count(first.part) ? combine_.at(first.part) : Combine::sum, names(to)};
            moves.push_back(std::move(move));
            i = end;
        }
        return moves;
    }

    /// The axes that shard what an exchange moves: those of `from` that do not stay where they are.
    std::string group(const State& from, const State& to) const
    {
        PartList list;
        for (std::size_t d = 0; d < from.dims.size(); ++d) {
            const auto mine = std::ranges::mismatch(from.dims[d], to.dims[d]).in1;
            list.insert(list.end(), mine, from.dims[d].end());
        }
        std::ranges::sort(list);
        return joined_words(parts_.names_of(list), "+");
    }

    const Shape& whole_;
    bool divides_, leaps_;
    AxisParts parts_;
    State first_, last_;
    std::map<PartId, Combine> combine_;
    std::vector<Node> nodes_;
    std::unordered_map<std::string, int> known_; ///< by the key of their state
    struct Entry { ///< a node by the least cost of a whole way over it; of equals the one nearest to the end
        Cost whole;
        double rest;
        std::size_t misplaced;
        int node;
        auto operator<=>(const Entry&) const = default;
    };
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// Whether both are parts of one axis, or one is the axis.
bool same_axis(const std::string& a, const std::string& b)
{
    return a.substr(0, a.find(":(")) == b.substr(0, b.find(":("));
}

/// Whether a part of one axis could take the place of another axis: they differ in size, and have few parts.
bool worth_dividing(const std::vector<std::string>& names, const Mesh& mesh)
{
    constexpr std::size_t most_parts = 8;
    const bool differ = std::ranges::any_of(
        names, [&](const std::string& axis) { return mesh.size(axis) != mesh.size(names[0]); });
    std::set<std::string> axes;
    for (const std::string& name : names)
        axes.insert(name.substr(0, name.find(":(")));
    std::size_t parts = 0;
    for (const std::string& axis : axes)
        parts += AxisParts(mesh, {axis}, true).parts_of(axis).size();
    return differ && parts <= most_parts;
}

} // namespace

std::vector<Move> direct_moves(const Layout& from, const DimAxes& to)
{
    std::vector<Move> moves;
    for (const Partial& p : from.partial)
        moves.push_back({MoveKind::all_reduce, p.axis, 0, p.combine, from.axes});
    std::vector<std::string> left;
    for (std::size_t d = 0; d < to.size(); ++d)
        left.insert(left.end(), std::ranges::mismatch(from.axes[d], to[d]).in1, from.axes[d].end());
    moves.push_back({MoveKind::permute, joined_words(left, "+"), 0, Combine::sum, to});
    return moves;
}

std::vector<Move> search_moves(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                               int* layouts)
{
    std::vector<std::string> names;
    bool overlap = false;
    const auto name = [&](const std::string& axis) {
        for (const std::string& other : names)
            overlap = overlap || (other != axis && same_axis(other, axis));
        names.push_back(axis);
    };
    for (const auto* dims : {&from.axes, &to})
        for (const auto& axes : *dims)
            std::ranges::for_each(axes, name);
    for (const Partial& p : from.partial)
        name(p.axis);
    // Then parts of axes nest.
    const bool nests = divides_evenly(whole, from.axes, mesh) && divides_evenly(whole, to, mesh);
    if (nests || !overlap) {
        const AxisParts parts(mesh, names, nests && worth_dividing(names, mesh));
        for (const bool leaps : {false, true})
            if (std::vector<Move> moves = Search(from, to, whole, parts, nests, leaps).run(layouts);
                !moves.empty())
                return moves;
    }
    return direct_moves(from, to);
}

} // namespace trivium
