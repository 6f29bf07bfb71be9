#include "passes/sharding/move_prices.hpp"

namespace trivium {

MovePrices::OfMesh& MovePrices::on(const Mesh& mesh)
{
    if (mesh.axes == last_ && now_)
        return *now_;
    constexpr std::size_t most = 1 << 18; // of about 200 bytes each
    std::size_t count = 0;
    for (const auto& [axes, prices] : meshes_)
        count += prices.size();
    if (count > most)
        meshes_.clear();
    std::string key;
    for (const MeshAxis& axis : mesh.axes)
        ((key += axis.name) += ' ') += std::to_string(axis.size) + ' ';
    now_ = &meshes_[key];
    last_ = mesh.axes;
    return *now_;
}

} // namespace trivium
