#pragma once
// Meshes and shardings of StableHLO text: those of sdy, and the strings of mhlo.sharding.
#include "ir/mesh.hpp"
#include "stablehlo/syntax.hpp"

#include <optional>

namespace trivium {

class HloMesh {
public:
    /// The mesh of sdy, or the coarsest one along whose axes every mhlo.sharding of the text divides. Throws
    /// UserError at `place` if there is none.
    HloMesh(const HloModule& module, const std::string& place);

    const Mesh& mesh() const { return mesh_; }
    /// From the attributes sdy.sharding and mhlo.sharding of an op's result, an argument or a result, or from
    /// the value of a constraint, for a tensor of `rank` dimensions; nothing without them, or if they state
    /// nothing.
    std::optional<Sharding> of(const HloAttribute& attributes, std::size_t rank, const std::string& place,
                               std::size_t result = 0) const;

private:
    Sharding of_sdy(const std::string& text, const std::string& place) const;
    std::optional<Sharding> of_devices(const std::string& text, std::size_t rank,
                                       const std::string& place) const;

    Mesh mesh_;
};

} // namespace trivium
