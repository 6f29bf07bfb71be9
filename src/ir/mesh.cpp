#include "ir/mesh.hpp"

#include "base/check.hpp"

namespace trivium {

i64 Mesh::ranks() const
{
    i64 count = 1;
    for (const MeshAxis& axis : axes)
        count *= axis.size;
    return count;
}

i64 Mesh::size(const std::string& name) const
{
    for (const MeshAxis& axis : axes)
        if (axis.name == name)
            return axis.size;
    throw InternalError(__FILE__, __LINE__, str("the mesh has no axis '", name, "'"));
}

} // namespace trivium
