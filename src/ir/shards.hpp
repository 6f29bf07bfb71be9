#pragma once
// The boxes of all ranks by one sharding of a tensor.
#include "ir/mesh.hpp"

namespace trivium {

DimAxes dim_axes(const Sharding& sharding);

/// box_of() and box_of_axes() for many ranks: the axes are found once.
class Shards {
public:
    /// Axes that the mesh does not have shard nothing. Throws InternalError if there are axes, but not of as
    /// many dimensions as `whole` has.
    Shards(const Shape& whole, const DimAxes& axes, const Mesh& mesh);

    Box operator()(const Coordinates& at) const;

private:
    Shape whole_;
    std::vector<std::vector<AxisPart>> parts_; ///< by dimension, major first
};

} // namespace trivium
