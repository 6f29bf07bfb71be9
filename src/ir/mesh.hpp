#pragma once
// A Mesh is a grid of ranks with named axes; a Sharding says which axes cut which dimension of a tensor.
//
// Example: on the mesh data=2 tensor=4, a weight [512, 1024] sharded as [{}, {tensor}] has the local shape
// [512, 256], the same on both data ranks. Axes of one dimension are ordered, major first.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

struct MeshAxis {
    std::string name;
    i64 size = 1;
    bool operator==(const MeshAxis&) const = default;
};

/// Axes in rank order: the last one varies fastest.
struct Mesh {
    std::vector<MeshAxis> axes;

    i64 ranks() const;
    /// Size of the axis called `name`. Throws InternalError where there is none.
    i64 size(const std::string& name) const;
    bool operator==(const Mesh&) const = default;
};

/// How one dimension is cut.
struct DimSharding {
    std::vector<std::string> axes; ///< major first; empty: whole on every rank
    bool open = true;              ///< propagation may add axes
    bool operator==(const DimSharding&) const = default;
};

/// How a tensor is cut. No `dims`: fully open, nothing is known yet.
struct Sharding {
    std::vector<DimSharding> dims;
    std::vector<std::string> partial; ///< axes over which the values are still to be summed
    std::string origin;               ///< what set it: an annotation or a rule, for `explain`
    bool operator==(const Sharding&) const = default;
};

} // namespace trivium
