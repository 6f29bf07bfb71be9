#include "ir/graph.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

std::string_view name_of(Region region)
{
    static constexpr std::string_view names[] = {"prologue", "microbatch", "epilogue"};
    return names[static_cast<int>(region)];
}

std::string_view name_of(Role role)
{
    static constexpr std::string_view names[] = {"computed", "input",    "hyper", "parameter",
                                                 "state",    "constant", "carry", "kept"};
    return names[static_cast<int>(role)];
}

std::string_view name_of(Phase phase)
{
    static constexpr std::string_view names[] = {"forward", "backward", "weights", "update"};
    return names[static_cast<int>(phase)];
}

Lifetime lifetime_of(Role role)
{
    if (role == Role::input || role == Role::computed)
        return Lifetime::microbatch;
    return role == Role::carry || role == Role::hyper ? Lifetime::step : Lifetime::run;
}

int stage_of(const Graph& graph, const Op& op)
{
    return graph.stage_of_block.empty() ? 0 : graph.stage_of_block[static_cast<std::size_t>(op.block)];
}

ValueId Graph::find(std::string_view wanted) const
{
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].name == wanted)
            return ValueId(i);
    return {};
}

Graph Graph::without_ops() const
{
    return {name, file, mesh, mesh_line, at, stage_of_block, values, {}, carries, outputs};
}

std::vector<ValueId> Graph::with_role(Role role) const
{
    std::vector<ValueId> found;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].role == role)
            found.emplace_back(i);
    return found;
}

std::string source_place(const Graph& graph, int line)
{
    return graph.file.empty() ? "" : line > 0 ? str(graph.file, ":", line, ": ") : graph.file + ": ";
}

const Shape& whole_shape(const Value& value) { return value.whole.empty() ? value.type.shape : value.whole; }

Box box_of(const Graph& graph, const Value& v)
{
    return graph.at.empty() ? Box{Shape(v.type.shape.size(), 0), v.type.shape}
                            : box_of(whole_shape(v), v.sharding, graph.mesh, graph.at);
}

std::vector<int> uses_of(const Graph& graph)
{
    std::vector<int> uses(graph.values.size(), 0);
    for (const Op& op : graph.ops)
        for (const ValueId v : op.operands)
            ++uses[v.index()];
    for (const ValueId v : graph.outputs)
        ++uses[v.index()];
    for (const Carry& carry : graph.carries)
        ++uses[carry.out.index()];
    return uses;
}

void reorder(Graph& graph, const std::vector<std::size_t>& order)
{
    std::vector<Op> ops;
    ops.reserve(order.size());
    for (const std::size_t from : order) {
        for (const ValueId v : graph.ops[from].results)
            graph[v].producer = OpId(ops.size());
        ops.push_back(std::move(graph.ops[from]));
    }
    graph.ops = std::move(ops);
}

namespace {

/// Sorts the ops by a key of their indices.
template <class Key>
void sort_ops(Graph& graph, const Key& key)
{
    std::vector<std::size_t> order(graph.ops.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, key);
    reorder(graph, order);
}

} // namespace

void sort_regions(Graph& graph)
{
    sort_ops(graph, [&](std::size_t i) { return graph.ops[i].region; });
}

void move_before(Graph& graph, std::size_t first, const std::vector<std::size_t>& before)
{
    TRV_CHECK(first + before.size() == graph.ops.size(), "a place for each moved op");
    sort_ops(graph, [&](std::size_t i) { // moved ops first among those of one place
        return i < first ? std::pair(i, 1) : std::pair(before[i - first], 0);
    });
}

void keep_only(Graph& graph, const std::vector<bool>& ops, const std::vector<bool>& values)
{
    std::vector<ValueId> renumbered(graph.values.size());
    std::vector<Value> kept_values;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i]) {
            renumbered[i] = ValueId(kept_values.size());
            kept_values.push_back(std::move(graph.values[i]));
        }
    const auto renumber = [&](ValueId& id) {
        id = renumbered[id.index()];
        TRV_CHECK(id, "a dropped value is still needed");
    };
    std::vector<Op> kept_ops;
    for (std::size_t i = 0; i < ops.size(); ++i)
        if (ops[i]) {
            Op op = std::move(graph.ops[i]);
            for (ValueId& id : op.operands)
                renumber(id);
            for (ValueId& id : op.results) {
                renumber(id);
                kept_values[id.index()].producer = OpId(kept_ops.size());
            }
            kept_ops.push_back(std::move(op));
        }
    graph.values = std::move(kept_values);
    graph.ops = std::move(kept_ops);
    for (Carry& carry : graph.carries) {
        renumber(carry.in);
        renumber(carry.out);
    }
    for (ValueId& id : graph.outputs)
        renumber(id);
}

} // namespace trivium
