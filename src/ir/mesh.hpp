#pragma once
// A Mesh is a grid of ranks with named axes; a Sharding says which axes shard which dimension of a tensor,
// and a Box which part of the tensor a rank then has.
//
// Example: on the mesh data=2 tensor=4, a weight [512, 1024] sharded as [{}, {tensor}] has the local shape
// [512, 256], the same on both data ranks. Axes of one dimension are ordered, major first: each shards the
// shards of the one before. Extents need not divide: the first ranks of an axis have one more.
#include "ir/type.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// The axes of a run's mesh, and the joint axis, along which all ranks are one group.
inline constexpr const char *data_axis = "data", *pipeline_axis = "pipeline", *tensor_axis = "tensor",
                            *world_axis = "world";

struct MeshAxis {
    std::string name;
    i64 size = 1;
    bool operator==(const MeshAxis&) const = default;
};

/// A rank's place on each axis, in the order of Mesh::axes.
using Coordinates = std::vector<i64>;

/// Axes in rank order: the last one varies fastest.
struct Mesh {
    std::vector<MeshAxis> axes;

    i64 ranks() const;
    /// Position of the axis called `name`, or -1.
    int find(const std::string& name) const;
    /// Size of the axis called `name`; 1 where there is none: a mesh without an axis has one rank along it.
    i64 size(const std::string& name) const;
    /// Ranks of a group along `axis`, or of all for "world", the joint axis.
    i64 ranks_along(const std::string& axis) const;
    /// Throws InternalError for a rank that the mesh does not have.
    Coordinates coordinates(i64 rank) const;
    i64 rank(const Coordinates& at) const;
    /// The ranks that differ from `at` only along the axes `along`, ascending; `at` itself included.
    std::vector<i64> group(const Coordinates& at, const std::vector<std::string>& along) const;
    bool operator==(const Mesh&) const = default;
};
/// Throws UserError, placed at `place`, where an axis has no rank, two have one name, or there are too many
/// (limits.hpp).
void check_mesh(const Mesh& mesh, const std::string& place);

/// How one dimension is sharded.
struct DimSharding {
    std::vector<std::string> axes; ///< major first; empty: whole on every rank
    bool open = true;              ///< propagation may add axes
    bool operator==(const DimSharding&) const = default;
};

/// How partial values are combined.
enum class Combine : std::uint8_t {
    sum,
    lse ///< log(exp(a) + exp(b)), in rank order; -inf is the identity
};
std::string_view name_of(Combine combine);
/// The combiner called `name`, or nothing.
std::optional<Combine> combine_named(std::string_view name);

/// An axis over which a value is still to be combined: every rank has a contribution to each element.
struct Partial {
    std::string axis;
    Combine combine = Combine::sum;
    bool operator==(const Partial&) const = default;
};

/// How a tensor is sharded. No `dims`: fully open, nothing is known yet.
struct Sharding {
    std::vector<DimSharding> dims;
    std::vector<Partial> partial;
    std::string origin; ///< what set it: an annotation or a rule, for `explain`
    bool operator==(const Sharding&) const = default;
};

/// A half-open stretch of one dimension.
struct Stretch {
    i64 begin = 0, size = 0;
    bool operator==(const Stretch&) const = default;
};

/// Part `index` of `parts` of `extent`: parts differ by at most one, larger ones first.
Stretch part_of(i64 extent, i64 parts, i64 index);

/// A rectangular part of a tensor.
struct Box {
    Shape offset, shape;
    bool operator==(const Box&) const = default;
};

/// What the rank at `at` has of a tensor of shape `whole`. Throws InternalError where the sharding has
/// another number of dimensions than `whole`, and not none.
Box box_of(const Shape& whole, const Sharding& sharding, const Mesh& mesh, const Coordinates& at);

/// Row-major contiguous runs that a box has in its tensor: calls `visit(global, local, count)` with the index
/// of a run's first element in the whole tensor and in the box, in ascending order.
template <class Visit>
void for_each_run(const Shape& whole, const Box& box, Visit&& visit)
{
    const i64 elements = element_count(box.shape);
    if (elements == 0)
        return;
    // The run covers the trailing dimensions that are whole, and the one before them.
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
