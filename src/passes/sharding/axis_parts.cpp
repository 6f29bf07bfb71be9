#include "passes/sharding/axis_parts.hpp"

#include "base/check.hpp"
#include "ir/general/manual.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

/// \pre Mesh::size_of(name) has a value
AxisPart named_part(const Mesh& mesh, const std::string& name)
{
    const AxisPart part = axis_part(mesh, name);
    TRV_CHECK(part.size > 0, "no axis '", name, "'");
    return part;
}

i64 least_prime_factor(i64 n)
{
    for (i64 p = 2; p * p <= n; ++p)
        if (n % p == 0)
            return p;
    return n;
}

/// Calls visit(place, name) for each axis, or part of one, that a sharding of the graph names; `place` makes
/// the place of what names it.
template <class Visit>
void each_axis_name(const Graph& graph, Visit&& visit)
{
    for (const Value& v : graph.values) {
        const auto place = [&] { return str(source_place(graph, v.line), "%", v.name); };
        for (const DimSharding& dim : v.sharding->dims)
            for (const std::string& axis : dim.axes)
                visit(place, axis);
        for (const Partial& partial : v.sharding->partial)
            for (const std::string& axis : axes_of_group(graph.mesh, partial.axis))
                visit(place, axis);
        for (const std::string& axis : v.sharding->replicated)
            visit(place, axis);
    }
    for (const Op& op : graph.ops) {
        const auto place = [&] { return place_of(graph, op); };
        if (info(op).manual)
            for (const DimSharding& dim : manual_sharding(graph, op).dims)
                for (const std::string& axis : dim.axes)
                    visit(place, axis);
        if (info(op).communicates && graph.at.empty()) // its factor is sharded over its axis
            visit(place, *op.attrs->axis);
    }
}

using Boundaries =
    std::vector<std::set<i64>>; ///< by axis: the products of major parts at which parts begin and end

Boundaries whole_axes(const Mesh& mesh)
{
    Boundaries all;
    for (const MeshAxis& axis : mesh.axes)
        all.push_back({1, axis.size});
    return all;
}

void add_boundaries(Boundaries& all, const AxisPart& part)
{
    all[static_cast<std::size_t>(part.axis)].insert({part.major, part.major * part.size});
}

Boundaries boundaries_of(const Graph& graph)
{
    Boundaries all = whole_axes(graph.mesh);
    each_axis_name(graph, [&](const auto& place, const std::string& name) {
        const AxisPart part = named_part(graph.mesh, name);
        for (const i64 at : {part.major, part.major * part.size})
            for (const i64 other : all[static_cast<std::size_t>(part.axis)])
                if (at % other != 0 && other % at != 0)
                    throw UserError(
                        {place(),
                         str("names the part '", name, "' of an axis that is divided otherwise elsewhere"),
                         str("major parts of ", at, " and of ", other, " do not nest"),
                         "divide the axis in one way, or use a mesh with smaller axes"});
        add_boundaries(all, part);
    });
    return all;
}

} // namespace

bool any_composed(const Graph& graph)
{
    return std::ranges::any_of(graph.ops, [&](const Op& op) {
        if (!info(op).factors)
            return false;
        const FactorRule rule = rule_of(graph, op);
        return std::ranges::any_of(rule.factors, [](const Factor& f) { return !f.parts.empty(); });
    });
}

AxisParts::AxisParts(const Graph& graph, bool reshapes) : mesh_(graph.mesh), of_axis_(graph.mesh.axes.size())
{
    divide(boundaries_of(graph), reshapes);
    for (const std::vector<std::string>& axes : manual_axes(graph))
        manual_.push_back(parts_of(axes));
}

AxisParts::AxisParts(const Mesh& mesh, const std::vector<std::string>& names, bool primes)
    : mesh_(mesh), of_axis_(mesh.axes.size())
{
    Boundaries all = whole_axes(mesh);
    for (const std::string& name : names)
        add_boundaries(all, named_part(mesh, name));
    divide(all, primes);
}

void AxisParts::divide(const std::vector<std::set<i64>>& boundaries, bool primes)
{
    for (std::size_t a = 0; a < boundaries.size(); ++a)
        for (auto at = boundaries[a].begin(); std::next(at) != boundaries[a].end(); ++at) {
            i64 major = *at, rest = *std::next(at) / *at;
            while (rest > 1) {
                const i64 size = primes ? least_prime_factor(rest) : rest;
                of_axis_[a].push_back(static_cast<PartId>(parts_.size()));
                parts_.push_back({static_cast<int>(a), major, size});
                major *= size;
                rest /= size;
            }
        }
}

PartList AxisParts::parts_of(const std::string& name) const
{
    const AxisPart named = named_part(mesh_, name);
    PartList list;
    for (const PartId id : of_axis_[static_cast<std::size_t>(named.axis)])
        if ((*this)[id].major >= named.major && (*this)[id].major < named.major * named.size)
            list.push_back(id);
    return list;
}

PartList AxisParts::parts_of(const std::vector<std::string>& names) const
{
    PartList list;
    for (const std::string& name : names)
        for (const PartId part : parts_of(name))
            list.push_back(part);
    return list;
}

std::vector<std::string> AxisParts::names_of(const PartList& list) const
{
    std::vector<std::string> names;
    each_joined(list, [&](const AxisPart& part) {
        const MeshAxis& axis = mesh_.axes[static_cast<std::size_t>(part.axis)];
        std::string& name = names.emplace_back(axis.name);
        if (part.size != axis.size) // asked very often: without a stream
            ((name.append(":(") += std::to_string(part.major)) += ')') += std::to_string(part.size);
    });
    return names;
}

} // namespace trivium
