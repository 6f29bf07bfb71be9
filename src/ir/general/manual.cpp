#include "ir/general/manual.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"

#include <algorithm>

namespace trivium {

namespace {

using Axes = std::vector<std::string>;

/// The one of `axes` that has ranks in common with `axis`, or null.
const std::string* overlapping(const Mesh& mesh, const Axes& axes, const std::string& axis)
{
    const auto at = std::find_if(axes.begin(), axes.end(),
                                 [&](const std::string& other) { return mesh.overlap(other, axis); });
    return at == axes.end() ? nullptr : &*at;
}

void enter(const Graph& graph, const Op& op, Axes& region, const std::string& axis)
{
    if (overlapping(graph.mesh, region, axis))
        throw UserError({place_of(graph, op), str("enters a manual region over '", axis, "' again"),
                         str("its operand is already in one"),
                         "use another axis, or leave that region with `global` first"});
    region.push_back(axis);
}

void leave(const Graph& graph, const Op& op, Axes& region, const std::string& axis)
{
    const std::string* inside = overlapping(graph.mesh, region, axis);
    if (inside && *inside != axis)
        throw UserError({place_of(graph, op), str("leaves a manual region over '", axis, "'"),
                         str("its operand is in one over '", *inside, "'"),
                         str("write '", *inside, "', as `local` does")});
    std::erase(region, axis);
}

} // namespace

Sharding manual_sharding(const Graph& graph, const Op& op)
{
    const std::string place = place_of(graph, op);
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
        throw UserError({place, "its attribute 'sharding' " + problem, "", remedy});
    };
    Sharding made = parse_sharding(op.attrs->sharding.value_or(""), place);
    if (!made.partial.empty() || !made.replicated.empty())
        refuse("has axes after a bar", "name only axes that shard a dimension, like sharding=\"<x,->\"");
    Axes used;
    for (const DimSharding& dim : made.dims)
        for (const std::string& axis : dim.axes) {
            if (!graph.mesh.size_of(axis))
                refuse("names " + unknown_axis(graph.mesh, axis).which,
                       unknown_axis(graph.mesh, axis).remedy);
            if (const std::string* other = overlapping(graph.mesh, used, axis))
                refuse(axis == *other
                           ? str("names '", axis, "' twice")
                           : str("names '", *other, "' and '", axis, "', which have ranks in common"),
                       "name an axis once");
            used.push_back(axis);
        }
    return made;
}

std::vector<Axes> manual_axes(const Graph& graph)
{
    if (std::none_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return info(op).manual; }))
        return {};
    std::vector<Axes> manual(graph.values.size());
    for (const Op& op : graph.ops) {
        Axes region;
        for (const ValueId v : op.operands)
            for (const std::string& axis : manual[v.index()])
                if (std::find(region.begin(), region.end(), axis) == region.end())
                    region.push_back(axis);
        if (info(op).manual)
            for (const DimSharding& dim : manual_sharding(graph, op).dims)
                for (const std::string& axis : dim.axes)
                    info(op).enters ? enter(graph, op, region, axis) : leave(graph, op, region, axis);
        for (const ValueId v : op.results)
            manual[v.index()] = region;
    }
    return manual;
}

void check_manual(const Graph& graph)
{
    const std::vector<Axes> manual = manual_axes(graph);
    if (manual.empty())
        return;
    const auto refuse = [&](ValueId v, int line, const std::string& problem, const std::string& remedy) {
        throw UserError({str(source_place(graph, line), "%", graph[v].name), problem,
                         str("it is in a manual region over '", manual[v.index()][0],
                             "', so each rank along this axis has a value of its own"),
                         remedy});
    };
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
        const Value& value = graph.values[i];
        const auto check = [&](const char* how, const std::string& axis) {
            if (overlapping(graph.mesh, manual[i], axis))
                refuse(ValueId(i), value.line, str("is ", how, " over '", axis, "'"),
                       "use other axes inside the region");
        };
        for (const DimSharding& dim : value.sharding->dims)
            for (const std::string& axis : dim.axes)
                check("sharded", axis);
        for (const Partial& partial : value.sharding->partial)
            for (const std::string& axis : axes_of_group(graph.mesh, partial.axis))
                check("partial", axis);
    }
    for (const ValueId v : graph.outputs)
        if (!manual[v.index()].empty())
            refuse(v, graph[v].line, "is an output", "leave the region with `global`, and output the result");
    for (const Carry& carry : graph.carries)
        if (!manual[carry.out.index()].empty())
            refuse(carry.out, carry.line, "is carried", "leave the region with `global` before the update");
}

} // namespace trivium
