#pragma once
// Mesh axes divided into parts (Shardy's sub-axes), so that a reshape may shard several dimensions over one
// axis: "x:(2)4" is the part of size 4 of axis x below a major part of size 2.
#include "ir/graph.hpp"

#include <algorithm>
#include <set>

namespace trivium {

using PartId = int;
using PartList = std::vector<PartId>; ///< major first

inline bool holds(const PartList& list, PartId part) { return std::ranges::find(list, part) != list.end(); }

/// Whether some op has a dimension made of several factors (Factor::parts), over which an axis may be
/// divided.
bool any_composed(const Graph& graph);

/// Every axis of a mesh as a list of its parts, whose sizes multiply to its size; an axis that nothing
/// divides is one part, an axis with one rank has none. The mesh must outlive this.
class AxisParts {
public:
    struct Part {
        int axis = 0;
        i64 major = 1, size = 1; ///< product of the sizes of the axis' parts before this one; its own size
    };

    /// Divides the axes where sub-axes in the shardings of `graph` begin and end and, with `reshapes`,
    /// further into primes. Throws UserError at a value or op whose sub-axis does not nest with another one.
    /// \pre verify() accepts the graph
    AxisParts(const Graph& graph, bool reshapes);
    /// Divides the axes of `mesh` where the sub-axes `names` begin and end and, with `divide`, further into
    /// primes. \pre they nest
    AxisParts(const Mesh& mesh, const std::vector<std::string>& names, bool divide);

    const Part& operator[](PartId part) const { return parts_[static_cast<std::size_t>(part)]; }
    std::size_t count() const { return parts_.size(); }
    /// The product of the sizes of these parts.
    i64 ranks_along(const PartList& parts) const
    {
        i64 ranks = 1;
        for (const PartId part : parts)
            ranks *= (*this)[part].size;
        return ranks;
    }
    /// The parts of the axis or sub-axis `name`, major first; empty for an axis with one rank.
    PartList parts_of(const std::string& name) const;
    PartList parts_of(const std::vector<std::string>& names) const;
    /// The parts of the manual axes at `v` (manual_axes). Each rank along them has a tensor of its own, so no
    /// op that reads or computes `v` may be sharded over them.
    PartList manual(ValueId v) const { return manual_.empty() ? PartList() : manual_[v.index()]; }
    /// Calls visit(AxisPart) for the fewest parts of axes that are the same: neighbours become one.
    template <class Visit>
    void each_joined(const PartList& parts, Visit&& visit) const
    {
        for (std::size_t i = 0; i < parts.size();) {
            const Part& first = (*this)[parts[i]];
            AxisPart joined{first.axis, first.major, first.size};
            for (++i; i < parts.size() && parts[i] == parts[i - 1] + 1; ++i) {
                const Part& next = (*this)[parts[i]];
                if (next.axis != first.axis)
                    break;
                joined.size *= next.size;
            }
            joined.minor =
                mesh_.axes[static_cast<std::size_t>(joined.axis)].size / (joined.major * joined.size);
            visit(joined);
        }
    }
    /// The shortest list of names of axes and sub-axes: neighbouring parts of an axis become one name.
    std::vector<std::string> names_of(const PartList& parts) const;

private:
    void divide(const std::vector<std::set<i64>>& boundaries, bool primes);

    const Mesh& mesh_;
    std::vector<Part> parts_;
    std::vector<PartList> manual_; ///< by value; empty if the graph has no manual region
    std::vector<PartList> of_axis_;
};

} // namespace trivium
