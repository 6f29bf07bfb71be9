#pragma once
// Mesh axes divided into parts, so that a reshape may shard several dimensions over one axis (Shardy's
// sub-axes): "x:(2)4" is the part of size 4 of axis x below a major part of size 2.
#include "ir/graph.hpp"

#include <algorithm>
#include <set>

namespace trivium {

using PartId = int;
using PartList = std::vector<PartId>; ///< major first

inline bool holds(const PartList& list, PartId part)
{
    return std::find(list.begin(), list.end(), part) != list.end();
}

/// Whether some op has dimensions made of several factors, over which one axis may be divided.
bool any_composed(const Graph& graph);

/// Every axis as a list of its parts. All parts of an axis multiply to its size; an axis that nothing divides
/// is one part.
class AxisParts {
public:
    struct Part {
        int axis = 0;
        i64 major = 1, size = 1; ///< product of the axis' parts before this one, and its own size
    };

    /// Divides the axes as the shardings of `graph` name them and, with `reshapes`, further into primes.
    /// Throws UserError at a value whose sharding names a part that does not exist, or that overlaps another.
    AxisParts(const Graph& graph, bool reshapes);
    /// The axes of a mesh, divided as `names` name them and, with `divide`, further into primes.
    AxisParts(const Mesh& mesh, const std::vector<std::string>& names, bool divide);

    const Part& operator[](PartId part) const { return parts_[static_cast<std::size_t>(part)]; }
    std::size_t count() const { return parts_.size(); }
    /// The parts of an axis, or of a part of one, by name. Empty for an axis with one rank.
    PartList parts_of(const std::string& name) const;
    PartList parts_of(const std::vector<std::string>& names) const;
    /// The parts over whose axes `v` is in manual regions. Each rank along them has a tensor of its own, so
    /// nothing that reads or makes it may be sharded over them.
    PartList manual(ValueId v) const { return manual_.empty() ? PartList() : manual_[v.index()]; }
    /// The shortest list of names: neighbouring parts become one.
    std::vector<std::string> names_of(const PartList& parts) const;

private:
    void divide(const std::vector<std::set<i64>>& boundaries, bool primes);

    const Mesh& mesh_;
    std::vector<Part> parts_;
    std::vector<PartList> manual_; ///< by value; empty if the graph has no manual region
    std::vector<PartList> of_axis_;
};

} // namespace trivium
