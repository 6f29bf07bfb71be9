#include "ir/mesh.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"

#include <algorithm>
#include <charconv>

namespace trivium {

bool joins(std::string_view joint, std::string_view axis)
{
    while (true) {
        const std::size_t end = joint.find(axis_joint);
        if (joint.substr(0, end) == axis)
            return true;
        if (end == std::string_view::npos)
            return false;
        joint.remove_prefix(end + 1);
    }
}

i64 Mesh::ranks() const
{
    i64 count = 1;
    for (const MeshAxis& axis : axes)
        count *= axis.size;
    return count;
}

int Mesh::find(const std::string& name) const
{
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (axes[i].name == name)
            return static_cast<int>(i);
    return -1;
}

i64 Mesh::size(const std::string& name) const
{
    const int at = find(name);
    return at < 0 ? 1 : axes[static_cast<std::size_t>(at)].size;
}

namespace {

/// "x:(2)4", or "x" with its whole size.
struct AxisPart {
    std::string_view name;
    i64 major = 1, size = 0;
};

AxisPart axis_part(const Mesh& mesh, std::string_view name)
{
    if (const int at = mesh.find(std::string(name)); at >= 0)
        return {name, 1, mesh.axes[static_cast<std::size_t>(at)].size};
    const std::size_t open = name.find(":("), close = name.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos)
        return {};
    AxisPart part{name.substr(0, open), 0, 0};
    const int at = mesh.find(std::string(part.name));
    std::from_chars(name.data() + open + 2, name.data() + close, part.major);
    std::from_chars(name.data() + close + 1, name.data() + name.size(), part.size);
    const i64 whole = at < 0 ? 0 : mesh.axes[static_cast<std::size_t>(at)].size;
    if (part.major < 1 || part.size < 1 || part.major > whole || part.size > whole ||
        whole % (part.major * part.size) != 0)
        return {};
    return part;
}

} // namespace

std::optional<i64> Mesh::size_of(std::string_view name) const
{
    const AxisPart part = axis_part(*this, name);
    return part.size > 0 ? std::optional(part.size) : std::nullopt;
}

bool Mesh::overlap(std::string_view a, std::string_view b) const
{
    const AxisPart one = axis_part(*this, a), other = axis_part(*this, b);
    return one.name == other.name && one.major < other.major * other.size && other.major < one.major * one.size;
}

i64 Mesh::ranks_along(const std::string& axis) const
{
    if (axis == world_axis)
        return ranks();
    i64 count = 1;
    for (const MeshAxis& each : axes)
        count *= joins(axis, each.name) ? each.size : 1;
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
    std::vector<i64> members{0}; // over the axes so far
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const bool free = std::any_of(along.begin(), along.end(),
                                      [&](const std::string& axis) { return joins(axis, axes[i].name); });
        std::vector<i64> next;
        for (const i64 member : members)
            for (i64 c = free ? 0 : at[i]; c < (free ? axes[i].size : at[i] + 1); ++c)
                next.push_back(member * axes[i].size + c);
        members = std::move(next);
    }
    return members;
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
        require(axis.size > 0, what, str("has ", axis.size, " ranks"), "use one or more");
        require(axis.size <= max_ranks / ranks, what,
                str("brings the mesh to more than ", max_ranks, " ranks: ", axis.size), "make it smaller");
        ranks *= axis.size;
    }
}

std::string_view name_of(Combine combine)
{
    switch (combine) {
    case Combine::sum: return "sum";
    case Combine::lse: return "lse";
    case Combine::max: return "max";
    case Combine::min: return "min";
    case Combine::product: break;
    }
    return "product";
}

std::optional<Combine> combine_named(std::string_view name)
{
    for (const Combine combine : {Combine::sum, Combine::lse, Combine::max, Combine::min, Combine::product})
        if (name == name_of(combine))
            return combine;
    return {};
}

Stretch part_of(i64 extent, i64 parts, i64 index)
{
    const i64 least = extent / parts, larger = extent % parts;
    return {index * least + std::min(index, larger), least + (index < larger ? 1 : 0)};
}

Box box_of(const Shape& whole, const Sharding& sharding, const Mesh& mesh, const Coordinates& at)
{
    TRV_CHECK(sharding.dims.empty() || sharding.dims.size() == whole.size(), "a sharding of ",
              sharding.dims.size(), " dimensions for a tensor of ", whole.size());
    Box box{Shape(whole.size(), 0), whole};
    for (std::size_t d = 0; d < sharding.dims.size(); ++d)
        for (const std::string& axis : sharding.dims[d].axes) {
            const int i = mesh.find(axis);
            if (i < 0)
                continue;
            const Stretch part = part_of(box.shape[d], mesh.axes[static_cast<std::size_t>(i)].size,
                                         at[static_cast<std::size_t>(i)]);
            box.offset[d] += part.begin;
            box.shape[d] = part.size;
        }
    return box;
}

} // namespace trivium
