#pragma once
// Prices of moves that many partitions have in common, such as those of the candidates of a search.
#include "ir/mesh.hpp"

#include <string>
#include <unordered_map>

namespace trivium {

/// Prices by moves_between(). A partition that finds one counts its layouts as if it had searched itself, so
/// no result depends on what came before. Not thread-safe.
class MovePrices {
public:
    struct Price {
        double share = 0; ///< elements that a rank sends, of all elements of the tensor
        int layouts = 0;  ///< that the search visited
    };
    using OfMesh = std::unordered_map<std::string, Price>; ///< by layouts and shape

    /// The prices on a mesh. The reference is valid until the next call.
    OfMesh& on(const Mesh& mesh);

private:
    std::unordered_map<std::string, OfMesh> meshes_; ///< by their axes
    std::vector<MeshAxis> last_;                     ///< the axes of the last mesh
    OfMesh* now_ = nullptr;                          ///< its prices
};

} // namespace trivium
