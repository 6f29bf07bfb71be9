#pragma once
// A Mesh is a grid of ranks with named axes. A Sharding states which axes shard which dimension of a tensor;
// a Box is the part of the tensor that a rank then holds.
//
// Example: on the mesh data=2 tensor=4, a weight [512, 1024] sharded as [{}, {tensor}] has the local shape
// [512, 256], the same on both data ranks. Axes of one dimension are ordered, major first: each divides the
// shards of the previous one. Extents need not divide evenly: the first ranks of an axis then have one more.
#include "ir/type.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// The axes of a run's mesh, and the joint axis, along which all ranks form one group. With hybrid sharding,
/// data-parallel ranks form groups: ZeRO shards along `data`, within a group, and `replica` leads from group
/// to group.
inline constexpr const char *replica_axis = "replica", *data_axis = "data", *pipeline_axis = "pipeline",
                            *tensor_axis = "tensor", *world_axis = "world";

/// Joins the names of axes: all ranks along the axes of "x+y" form one group, in the order of their ranks.
/// The order of the names does not matter. No axis has it in its name.
inline constexpr char axis_joint = '+';
/// Whether `axis` is one of the axes of `joint`, which may be a single axis.
bool joins(std::string_view joint, std::string_view axis);

struct MeshAxis {
    std::string name;
    i64 size = 1;
    bool operator==(const MeshAxis&) const = default;
};

/// A rank's coordinate on each axis, in the order of Mesh::axes.
using Coordinates = std::vector<i64>;

/// Axes in rank order: the last one varies fastest.
struct Mesh {
    std::vector<MeshAxis> axes;

    i64 ranks() const;
    /// Position of the axis called `name`, or -1.
    int find(const std::string& name) const;
    /// Size of the axis called `name`, or of a part of one (size_of); 1 if the mesh has no such axis.
    i64 size(const std::string& name) const;
    /// Size of the axis, or of the part of an axis "x:(2)4" (Shardy's sub-axes: of size 4, below a major part
    /// of 2); nothing if the mesh has none.
    std::optional<i64> size_of(std::string_view name) const;
    /// The rank's index along such an axis; 0 if the mesh has none.
    i64 index_along(const std::string& name, const Coordinates& at) const;
    /// Whether `axis` is "world", or joins such names by `+`.
    bool has_group(std::string_view axis) const;
    /// Whether two such names have a part of an axis in common.
    bool overlap(std::string_view a, std::string_view b) const;
    /// Ranks of a group along `axis`, along several as "x+y", or of all for "world", the joint axis. Axes
    /// that the mesh does not have count as one rank.
    i64 ranks_along(const std::string& axis) const;
    /// Throws InternalError if the mesh has no such rank.
    Coordinates coordinates(i64 rank) const;
    i64 rank(const Coordinates& at) const;
    /// The ranks that differ from `at` only along the axes `along`, which may be joined, ascending; includes
    /// `at`.
    std::vector<i64> group(const Coordinates& at, const std::vector<std::string>& along) const;
    bool operator==(const Mesh&) const = default;
};
/// The axes that "x+y" joins, or all of the mesh for "world".
std::vector<std::string> axes_of_group(const Mesh& mesh, std::string_view group);
/// For messages about an axis, or a part of one, that the mesh does not have: "'z', which is not an axis of
/// the mesh", and what to write instead.
struct UnknownAxis {
    std::string which, remedy;
};
UnknownAxis unknown_axis(const Mesh& mesh, std::string_view name);
/// Throws UserError at `place` if an axis has no rank, two axes have the same name, a name has a '+' or is
/// that of a part of another, or there are too many (limits.hpp).
void check_mesh(const Mesh& mesh, const std::string& place);

/// Per dimension, the axes that shard it, major first.
using DimAxes = std::vector<std::vector<std::string>>;

/// How one dimension is sharded.
struct DimSharding {
    std::vector<std::string> axes; ///< major first; empty: whole on every rank
    bool open = true;              ///< propagation may add axes
    int priority = 0;              ///< propagation begins with the lowest
    int by = -1;                   ///< the op along which propagation set it; -1: none, it was given
    int stated = -1; ///< after propagation, if it was open: how many of its axes an annotation stated

    bool operator==(const DimSharding& other) const
    {
        return axes == other.axes && open == other.open && priority == other.priority;
    }
};

/// How partial values are combined.
enum class Combine : std::uint8_t {
    sum,
    lse, ///< log(exp(a) + exp(b)), in rank order; -inf is the identity
    max, ///< NaN if one is
    min,
    product
};
std::string_view name_of(Combine combine);
/// The combiner called `name`, or nothing.
std::optional<Combine> combine_named(std::string_view name);

/// An axis over which a value is still partial: each rank holds a contribution to every element.
struct Partial {
    std::string axis;
    Combine combine = Combine::sum;
    bool operator==(const Partial&) const = default;
};

/// How a tensor is sharded. Without `dims` it is fully open: nothing is known yet.
struct Sharding {
    std::vector<DimSharding> dims;
    std::vector<Partial> partial;
    std::string origin{};                  ///< origin, for `explain`: an annotation or a rule
    std::vector<std::string> replicated{}; ///< axes that propagation must not use
    bool pinned = false; ///< a user or the model stated it: the value itself has it, wherever it is read

    bool operator==(const Sharding& other) const
    {
        return dims == other.dims && partial == other.partial && origin == other.origin &&
               replicated == other.replicated;
    }
};

/// A half-open range of one dimension.
struct IndexRange {
    i64 begin = 0, size = 0;
    bool operator==(const IndexRange&) const = default;
};

/// Part `index` of `parts` of `extent`: sizes differ by at most one, larger parts first.
IndexRange part_of(i64 extent, i64 parts, i64 index);

/// A rectangular part of a tensor.
struct Box {
    Shape offset, shape;
    bool operator==(const Box&) const = default;
};

/// The box that the rank at `at` holds of a tensor of shape `whole`. Throws InternalError if the sharding has
/// dimensions, but not as many as `whole`.
Box box_of(const Shape& whole, const Sharding& sharding, const Mesh& mesh, const Coordinates& at);
/// The same by the axes of each dimension.
Box box_of_axes(const Shape& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at);

/// The row-major contiguous runs of a box in its tensor: calls `visit(global, local, count)` with the index
/// of a run's first element in the whole tensor and in the box, in ascending order.
template <class Visit>
void for_each_run(const Shape& whole, const Box& box, Visit&& visit)
{
    const i64 elements = element_count(box.shape);
    if (elements == 0)
        return;
    // A run covers the trailing dimensions that are whole, and the one before them.
    std::size_t inner = whole.size();
    i64 run = 1;
    while (inner > 0) {
        --inner;
        run *= box.shape[inner];
        if (box.shape[inner] != whole[inner])
            break;
    }
    for (i64 local = 0; local < elements; local += run) {
        i64 rest = local, global = 0, stride = 1;
        for (std::size_t d = whole.size(); d-- > 0;) {
            global += (box.offset[d] + rest % box.shape[d]) * stride;
            rest /= box.shape[d];
            stride *= whole[d];
        }
        visit(global, local, run);
    }
}

} // namespace trivium
