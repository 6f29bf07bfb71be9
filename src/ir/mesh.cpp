#include "ir/shards.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/limits.hpp"

#include <algorithm>
#include <charconv>

namespace trivium {

bool joins(std::string_view joint, std::string_view axis)
{
    bool found = false;
    each_name(joint, [&](std::string_view name) { found = found || name == axis; });
    return found;
}

i64 Mesh::ranks() const
{
    i64 count = 1;
    for (const MeshAxis& axis : axes)
        count *= axis.size;
    return count;
}

int Mesh::find(std::string_view name) const
{
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (axes[i].name == name)
            return static_cast<int>(i);
    return -1;
}

AxisPart axis_part(const Mesh& mesh, std::string_view name)
{
    if (const int at = mesh.find(name); at >= 0)
        return {at, 1, mesh.axes[static_cast<std::size_t>(at)].size, 1};
    const std::size_t open = name.find(":("), close = name.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos)
        return {};
    AxisPart part{mesh.find(name.substr(0, open)), 0, 0, 1};
    if (part.axis < 0)
        return {};
    std::from_chars(name.data() + open + 2, name.data() + close, part.major);
    std::from_chars(name.data() + close + 1, name.data() + name.size(), part.size);
    const i64 whole = mesh.axes[static_cast<std::size_t>(part.axis)].size;
    if (part.major < 1 || part.size < 1 || part.major > whole || part.size > whole ||
        whole % (part.major * part.size) != 0)
        return {};
    part.minor = whole / (part.major * part.size);
    return part;
}

i64 Mesh::size(const std::string& name) const { return std::max<i64>(axis_part(*this, name).size, 1); }

i64 Mesh::parts_along(const std::vector<std::string>& axes) const
{
    i64 parts = 1;
    for (const std::string& axis : axes)
        parts *= size(axis);
    return parts;
}

std::optional<i64> Mesh::size_of(std::string_view name) const
{
    const AxisPart part = axis_part(*this, name);
    return part.size > 0 ? std::optional(part.size) : std::nullopt;
}

i64 Mesh::index_along(const std::string& name, const Coordinates& at) const
{
    const AxisPart part = axis_part(*this, name);
    return part.size > 0 ? part.index(at) : 0;
}

Coordinates Mesh::first_along(const std::vector<std::string>& axes, Coordinates at) const
{
    for (const std::string& axis : axes)
        each_name(axis, [&](std::string_view name) {
            if (const AxisPart part = axis_part(*this, name); part.size > 0) {
                i64& coordinate = at[static_cast<std::size_t>(part.axis)];
                coordinate -= part.digit(coordinate) * part.minor;
            }
        });
    return at;
}

bool Mesh::overlap(std::string_view a, std::string_view b) const
{
    const AxisPart one = axis_part(*this, a), other = axis_part(*this, b);
    return one.axis == other.axis && one.major < other.major * other.size &&
           other.major < one.major * one.size;
}

bool Mesh::has_group(std::string_view axis) const
{
    bool known = true;
    if (axis != world_axis)
        each_name(axis, [&](std::string_view name) { known = known && size_of(name).has_value(); });
    return known;
}

i64 Mesh::ranks_along(const std::string& axis) const
{
    if (axis == world_axis)
        return ranks();
    i64 count = 1;
    std::vector<std::pair<int, i64>> seen; // an axis that is named twice counts once
    each_name(axis, [&](std::string_view name) {
        const AxisPart part = axis_part(*this, name);
        if (part.size > 0 && std::ranges::find(seen, std::pair(part.axis, part.major)) == seen.end()) {
            seen.emplace_back(part.axis, part.major);
            count *= part.size;
        }
    });
    return count;
}

Coordinates Mesh::coordinates(i64 rank) const
{
    TRV_CHECK(rank >= 0 && rank < ranks(), "rank ", rank, " of ", ranks());
    Coordinates at(axes.size());
    for (std::size_t i = axes.size(); i-- > 0;) {
        at[i] = rank % axes[i].size;
        rank /= axes[i].size;
    }
    return at;
}

i64 Mesh::rank(const Coordinates& at) const
{
    i64 rank = 0;
    for (std::size_t i = 0; i < axes.size(); ++i)
        rank = rank * axes[i].size + at[i];
    return rank;
}

std::vector<i64> Mesh::group(const Coordinates& at, const std::vector<std::string>& along) const
{
    std::vector<std::vector<AxisPart>> free(axes.size());
    for (const std::string& axis : along)
        each_name(axis, [&](std::string_view name) {
            if (const AxisPart part = axis_part(*this, name); part.size > 0)
                free[static_cast<std::size_t>(part.axis)].push_back(part);
        });
    std::vector<i64> members{0}; // over the axes so far
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto fixed = [&](i64 coordinate) {
            for (const AxisPart& part : free[i])
                coordinate -= part.digit(coordinate) * part.minor;
            return coordinate;
        };
        std::vector<i64> next;
        for (const i64 member : members) {
            if (free[i].empty()) {
                next.push_back(member * axes[i].size + at[i]);
                continue;
            }
            for (i64 c = 0; c < axes[i].size; ++c)
                if (fixed(c) == fixed(at[i]))
                    next.push_back(member * axes[i].size + c);
        }
        members = std::move(next);
    }
    return members;
}

std::vector<std::string> axes_of_group(const Mesh& mesh, std::string_view group)
{
    std::vector<std::string> names;
    if (group == world_axis)
        for (const MeshAxis& axis : mesh.axes)
            names.push_back(axis.name);
    else
        each_name(group, [&](std::string_view name) { names.emplace_back(name); });
    return names;
}

UnknownAxis unknown_axis(const Mesh& mesh, std::string_view name)
{
    const std::string axis(name.substr(0, name.find(':')));
    if (const int at = mesh.find(axis); at >= 0 && axis.size() < name.size()) {
        const i64 size = mesh.axes[static_cast<std::size_t>(at)].size;
        return {str("'", name, "', which is not a part of axis '", axis, "' of ", size, " ranks"),
                str("write ", axis,
                    ":(M)S for the part of S ranks below a major part of M, where M times S divides ", size)};
    }
    const std::vector<std::string> names = axes_of_group(mesh, world_axis);
    return {str("'", name, "', which is not an axis of the mesh"),
            names.empty()
                ? str("add a line `mesh ", axis, "=2`, with the number of ranks")
                : did_you_mean(name, names, "name an axis of the line `mesh`: " + joined_words(names, ", "))};
}

void check_mesh(const Mesh& mesh, const std::string& place)
{
    const auto require = [&](bool holds, const std::string& what, const std::string& problem,
                             const std::string& remedy) {
        if (!holds)
            throw UserError({place + what, problem, "", remedy});
    };
    require(mesh.axes.size() <= max_mesh_axes, "mesh",
            str("has ", mesh.axes.size(), " axes, more than ", max_mesh_axes), "join axes");
    i64 ranks = 1;
    for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
        const MeshAxis& axis = mesh.axes[i];
        const std::string what = "mesh axis " + axis.name;
        require(axis.name != world_axis, what, "has the name of the joint axis", "rename it");
        require(static_cast<std::size_t>(mesh.find(axis.name)) == i, what, "is listed twice",
                "rename one of the two");
        require(axis.name.find(axis_joint) == std::string::npos, what,
                "has a '+' in its name, which joins axes", "rename it");
        const std::size_t colon = axis.name.find(':');
        require(colon == std::string::npos || mesh.find(axis.name.substr(0, colon)) < 0, what,
                "has the name of a part of another axis", "rename it");
        require(axis.size > 0, what, str("has ", axis.size, " ranks"), "use one or more");
        require(axis.size <= max_ranks / ranks, what,
                str("brings the mesh to more than ", max_ranks, " ranks: ", axis.size), "make it smaller");
        ranks *= axis.size;
    }
}

std::string_view name_of(Combine combine)
{
    static constexpr std::string_view names[] = {"sum", "lse", "max", "min", "product"};
    return names[static_cast<int>(combine)];
}

std::optional<Combine> combine_named(std::string_view name)
{
    for (const Combine combine : {Combine::sum, Combine::lse, Combine::max, Combine::min, Combine::product})
        if (name == name_of(combine))
            return combine;
    return {};
}

IndexRange part_of(i64 extent, i64 parts, i64 index)
{
    const i64 least = extent / parts, larger = extent % parts;
    return {index * least + std::min(index, larger), least + (index < larger ? 1 : 0)};
}

DimAxes dim_axes(const Sharding& sharding)
{
    DimAxes axes;
    for (const DimSharding& dim : sharding.dims)
        axes.push_back(dim.axes);
    return axes;
}

Shards::Shards(const Shape& whole, const DimAxes& axes, const Mesh& mesh) : whole_(whole), parts_(axes.size())
{
    TRV_CHECK(axes.empty() || axes.size() == whole.size(), "a sharding of ", axes.size(),
              " dimensions for a tensor of ", whole.size());
    for (std::size_t d = 0; d < axes.size(); ++d)
        for (const std::string& axis : axes[d])
            if (const AxisPart part = axis_part(mesh, axis); part.size > 1)
                parts_[d].push_back(part);
}

Box Shards::operator()(const Coordinates& at) const
{
    Box box{Shape(whole_.size(), 0), whole_};
    for (std::size_t d = 0; d < parts_.size(); ++d)
        for (const AxisPart& part : parts_[d]) {
            const IndexRange range = part_of(box.shape[d], part.size, part.index(at));
            box.offset[d] += range.begin;
            box.shape[d] = range.size;
        }
    return box;
}

Box box_of(const Shape& whole, const Sharding& sharding, const Mesh& mesh, const Coordinates& at)
{
    return Shards(whole, dim_axes(sharding), mesh)(at);
}

Box box_of_axes(const Shape& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at)
{
    return Shards(whole, axes, mesh)(at);
}

} // namespace trivium
