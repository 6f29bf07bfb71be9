#include "compile/saved_values.hpp"

#include "base/check.hpp"
#include "ir/averages.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <ranges>
#include <tuple>

namespace trivium {

namespace {

std::string saved_name(const Value& value)
{
    if (value.role == Role::parameter)
        return "param/" + value.name;
    const OptimizerState& state = value.state_of;
    TRV_CHECK(!state.parameter.empty(), "%", value.name, " is not a state of an optimizer");
    return str(info(state.update).states.at(static_cast<std::size_t>(state.index)), "/", state.parameter);
}

/// The ranks that hold the same shard of a value.
struct Holders {
    std::string group; ///< identifies the set of ranks
    i64 count = 1;
    i64 index = 0; ///< of this rank among them
};

Holders holders_of(const Graph& graph, const Value& value, const Coordinates& at, const HoldersOf& ranks)
{
    std::vector<std::string> sharding;
    for (const DimSharding& dim : value.sharding->dims)
        sharding.insert(sharding.end(), dim.axes.begin(), dim.axes.end());
    const Coordinates same = graph.mesh.first_along(sharding, at);
    Holders holders;
    for (std::size_t a = 0; a < at.size(); ++a) {
        const MeshAxis& axis = graph.mesh.axes[a];
        std::vector<i64> places; // on this axis, of the holders
        if (const auto known = ranks.find(value.name);
            axis.name == pipeline_axis && axis.size > 1 && known != ranks.end())
            places.assign(known->second.begin(), known->second.end());
        else
            for (Coordinates one = at; const i64 i : std::views::iota(i64{0}, axis.size)) {
                one[a] = i;
                if (graph.mesh.first_along(sharding, one)[a] == i)
                    places.push_back(i);
            }
        const auto own = std::ranges::find(places, same[a]);
        TRV_CHECK(own != places.end(), value.name, " is not held by ", axis.name, " ", at[a]);
        holders.index = holders.index * static_cast<i64>(places.size()) + (own - places.begin());
        holders.count *= static_cast<i64>(places.size());
        for (const i64 place : places)
            holders.group += str(axis.name, place, " ");
    }
    return holders;
}

} // namespace

DType saved_type(const Value& value) { return value.type.dtype == DType::f64 ? DType::f64 : DType::f32; }

std::vector<SavedValue> saved_values(const Program& program, const Coordinates& at, const HoldersOf& holders)
{
    struct Member {
        Holders holders;
        std::size_t saved; ///< index
    };
    std::vector<SavedValue> all;
    std::vector<Member> members;
    for (const Role role : {Role::parameter, Role::state})
        for (const ValueId id : program.graph.with_role(role)) {
            const Value& value = program.graph[id];
            members.push_back({holders_of(program.graph, value, at, holders), all.size()});
            SavedValue& saved = all.emplace_back(SavedValue{id,
                                                            saved_name(value),
                                                            whole_shape(value),
                                                            box_of(program.graph, value),
                                                            {},
                                                            0,
                                                            is_average(value)});
            saved.rows.size = saved.box.shape.empty() ? 1 : saved.box.shape[0];
            saved.row_bytes = saved.rows.size == 0
                                  ? 0
                                  : value.type.elements() / saved.rows.size * size_of(saved_type(value));
        }
    // Sorted by name, because holders of a group may be in other stages, whose graphs have another order.
    std::ranges::sort(members, [&](const Member& a, const Member& b) {
        return std::tie(a.holders.group, all[a.saved].name) < std::tie(b.holders.group, all[b.saved].name);
    });
    for (auto first = members.begin(); first != members.end();) {
        const auto last = std::find_if(
            first, members.end(), [&](const Member& m) { return m.holders.group != first->holders.group; });
        Bytes sum = 0, begin = 0;
        for (auto m = first; m != last; ++m)
            sum += all[m->saved].written();
        const Holders& h = first->holders;
        for (auto m = first; m != last; ++m) {
            SavedValue& saved = all[m->saved];
            const i64 rows = saved.rows.size;
            /// First row of holder `index`.
            const auto row_at = [&](i64 index) {
                const Bytes cut = sum / h.count * index - begin;
                return index == h.count ? rows
                       : cut <= 0       ? 0
                                        : std::min(rows, (cut + saved.row_bytes / 2) /
                                                             std::max<Bytes>(1, saved.row_bytes));
            };
            const i64 from = row_at(h.index), to = row_at(h.index + 1);
            begin += saved.written();
            saved.rows = {from, to - from};
        }
        first = last;
    }
    return all;
}

} // namespace trivium
