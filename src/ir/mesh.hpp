#pragma once
// A Mesh is a grid of ranks with named axes. A Sharding states which axes shard which dimension of a tensor;
// a Box is the range of each dimension that a rank then holds.
//
// Example: on the mesh data=2 tensor=4, a weight [512, 1024] sharded as [{}, {tensor}] has the local shape
// [512, 256], the same on both data ranks. Axes of one dimension are ordered, major first: each divides the
// shards of the previous one. Extents need not divide evenly: the first ranks of an axis then have one more.
#include "ir/type.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// The axes of a run's mesh, and `world_axis`, along which all ranks form one group. With hybrid sharding
/// (PyTorch's HSDP), ZeRO shards along `data`, and ranks along `replica` hold the same shards.
inline constexpr const char *replica_axis = "replica", *data_axis = "data", *pipeline_axis = "pipeline",
                            *tensor_axis = "tensor", *world_axis = "world";

/// Joins the names of axes: all ranks along the axes of the joint axis "x+y" form one group, in rank order.
/// The order of the names does not matter. Mesh axes do not have it in their names.
inline constexpr char axis_joint = '+';
/// Calls visit(name) for each name that `joint` joins; `joint` may be a single name.
template <class Visit>
void each_name(std::string_view joint, Visit&& visit)
{
    for (std::size_t begin = 0; begin <= joint.size();) {
        const std::size_t end = std::min(joint.find(axis_joint, begin), joint.size());
        visit(joint.substr(begin, end - begin));
        begin = end + 1;
    }
}
/// Whether `axis` is one of the names that `joint` joins.
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
    int find(std::string_view name) const;
    /// Size of the axis or sub-axis `name` (size_of); 1 if the mesh does not have it.
    i64 size(const std::string& name) const;
    /// The number of parts into which `axes` divide a dimension: the product of their sizes.
    i64 parts_along(const std::vector<std::string>& axes) const;
    /// Size of the axis "x", or of the sub-axis "x:(2)4" (Shardy's: of size 4, below a major part of size 2);
    /// nothing if the mesh does not have it.
    std::optional<i64> size_of(std::string_view name) const;
    /// Index of the rank at `at` along an axis or sub-axis; 0 if the mesh does not have it.
    i64 index_along(const std::string& name, const Coordinates& at) const;
    /// `at` with index 0 along these axes, sub-axes and joint axes: the same for ranks that differ only along
    /// them.
    Coordinates first_along(const std::vector<std::string>& axes, Coordinates at) const;
    /// Whether `axis` is "world", an axis, a sub-axis, or joins axes and sub-axes of the mesh.
    bool has_group(std::string_view axis) const;
    /// Whether two axes or sub-axes, not joint ones, have a sub-axis in common.
    bool overlap(std::string_view a, std::string_view b) const;
    /// Number of ranks in a group along `axis`, which may be a sub-axis, a joint axis or "world". Axes that
    /// the mesh does not have count as one rank.
    i64 ranks_along(const std::string& axis) const;
    /// Throws InternalError if the mesh has no such rank.
    Coordinates coordinates(i64 rank) const;
    i64 rank(const Coordinates& at) const;
    /// The ranks that differ from `at` only along the axes `along`, ascending; includes the rank at `at`.
    /// These may be sub-axes or joint axes, but not "world".
    std::vector<i64> group(const Coordinates& at, const std::vector<std::string>& along) const;
    bool operator==(const Mesh&) const = default;
};
/// A part of a mesh axis: of `size`, below a major part of `major`.
struct AxisPart {
    int axis = -1;
    i64 major = 1, size = 0, minor = 1;

    i64 digit(i64 coordinate) const { return coordinate / minor % size; }
    /// Index along it of the rank at `at`.
    i64 index(const Coordinates& at) const { return digit(at[static_cast<std::size_t>(axis)]); }
};
/// The sub-axis "x:(2)4", or the axis "x" with its whole size; size 0 if the mesh does not have it.
AxisPart axis_part(const Mesh& mesh, std::string_view name);
/// The names that `group` joins; for "world" all axes of the mesh.
std::vector<std::string> axes_of_group(const Mesh& mesh, std::string_view group);
/// For messages about an axis or sub-axis that the mesh does not have: "'z', which is not an axis of the
/// mesh", and what to write instead.
struct UnknownAxis {
    std::string which, remedy;
};
UnknownAxis unknown_axis(const Mesh& mesh, std::string_view name);
/// Throws UserError at `place` if an axis has no rank, a name occurs twice, contains '+', is "world" or that
/// of a sub-axis of another axis, or if there are too many axes or ranks (limits.hpp).
void check_mesh(const Mesh& mesh, const std::string& place);

/// Per dimension, the axes that shard it, major first.
using DimAxes = std::vector<std::vector<std::string>>;

/// How one dimension is sharded.
struct DimSharding {
    std::vector<std::string> axes; ///< major first; empty: whole on every rank
    bool open = true;              ///< propagation may add axes
    int priority = 0;              ///< propagation begins with the lowest
    int by = -1;                   ///< index of the op along which propagation set it; -1: given
    int stated = -1; ///< after propagation: how many of `axes` an annotation states; -1: it was closed

    bool operator==(const DimSharding& other) const
    {
        return axes == other.axes && open == other.open && priority == other.priority;
    }
};

/// How partial values are combined.
enum class Combine : std::uint8_t {
    sum,
    lse, ///< log(exp(a) + exp(b)), in rank order; -inf is the identity
    max, ///< of max and min: NaN if an operand is NaN
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
    std::string origin{};                  ///< for `explain`: the model, the pass or the ops that set it
    std::vector<std::string> replicated{}; ///< axes that propagation must not use
    bool pinned = false;                   ///< after propagation: a user or the model annotated the value

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

/// Range `index` of the `parts` into which `extent` is divided: sizes differ by at most one, larger ones
/// first.
IndexRange part_of(i64 extent, i64 parts, i64 index);

/// A rectangular range of a tensor's indices.
struct Box {
    Shape offset, shape;
    bool operator==(const Box&) const = default;
};

/// The box that the rank at `at` holds of a tensor of shape `whole`. Throws InternalError if the sharding has
/// dimensions, but not as many as `whole`.
Box box_of(const Shape& whole, const Sharding& sharding, const Mesh& mesh, const Coordinates& at);
/// As above, by the axes of each dimension.
Box box_of_axes(const Shape& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at);

/// Calls `visit(global, local, count)` for each row-major contiguous run of `box` in a tensor of shape
/// `whole`, ascending, with the index of the run's first element in the tensor and in the box.
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
