#include "shardings.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Puts the axes one after another.
class AllClosed {
public:
    AllClosed(const Shape& shape, const Mesh& mesh) : shape_(shape), mesh_(mesh)
    {
        for (const MeshAxis& axis : mesh.axes)
            order_.push_back(axis.name);
        std::sort(order_.begin(), order_.end());
        made_.dims.assign(shape.size(), {{}, false});
        do
            place(0);
        while (std::next_permutation(order_.begin(), order_.end()));
    }
    std::vector<Sharding> take() { return std::move(all_); }

private:
    void place(std::size_t axis)
    {
        if (axis == order_.size()) {
            if (std::find(all_.begin(), all_.end(), made_) == all_.end())
                all_.push_back(made_);
            return;
        }
        place(axis + 1);
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            i64 parts = mesh_.size(order_[axis]);
            for (const std::string& other : made_.dims[d].axes)
                parts *= mesh_.size(other);
            if (parts > shape_[d])
                continue;
            made_.dims[d].axes.push_back(order_[axis]);
            place(axis + 1);
            made_.dims[d].axes.pop_back();
        }
    }

    const Shape& shape_;
    const Mesh& mesh_;
    std::vector<std::string> order_;
    Sharding made_;
    std::vector<Sharding> all_;
};

} // namespace

std::vector<Sharding> all_closed_shardings(const Shape& shape, const Mesh& mesh)
{
    return AllClosed(shape, mesh).take();
}

AxisPieces drawn_pieces(Draw& draw, const Mesh& mesh, bool divide)
{
    AxisPieces made;
    for (const MeshAxis& axis : mesh.axes) {
        std::vector<AxisPieces::Piece>& pieces = made.axes.emplace_back();
        for (i64 major = 1; divide && major < axis.size;) {
            std::vector<i64> sizes;
            for (i64 size = 2; size <= axis.size / major; ++size)
                if (axis.size / major % size == 0)
                    sizes.push_back(size);
            const i64 size = sizes[static_cast<std::size_t>(below(draw, static_cast<i64>(sizes.size())))];
            pieces.push_back({str(axis.name, ":(", major, ")", size), size});
            major *= size;
        }
        if (pieces.size() < 2)
            pieces = {{axis.name, axis.size}};
    }
    return made;
}

Sharding drawn_sharding(Draw& draw, const TensorType& type, const Mesh& mesh, const AxisPieces& pieces,
                        const ShardingForms& forms)
{
    const Shape& shape = type.shape;
    std::vector<AxisPieces::Piece> all;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a)
        if (below(draw, 2))
            all.push_back({mesh.axes[a].name, mesh.axes[a].size});
        else
            all.insert(all.end(), pieces.axes[a].begin(), pieces.axes[a].end());
    std::shuffle(all.begin(), all.end(), draw);
    Sharding made;
    made.dims.resize(shape.size());
    std::vector<i64> parts(shape.size(), 1);
    for (const AxisPieces::Piece& piece : all) {
        if (forms.partial && below(draw, 8) == 0) {
            constexpr Combine combiners[] = {Combine::sum, Combine::sum,     Combine::max,
                                             Combine::min, Combine::product, Combine::lse};
            const Combine combine = combiners[below(draw, is_floating(type.dtype) ? 6 : 5)];
            // Several with different combiners are not one tensor.
            made.partial.push_back({piece.name, made.partial.empty() ? combine : made.partial[0].combine});
            continue;
        }
        if (forms.replicated && below(draw, 10) == 0) {
            made.replicated.push_back(piece.name);
            continue;
        }
        if (shape.empty() || below(draw, 4) == 0)
            continue;
        const auto d = static_cast<std::size_t>(below(draw, static_cast<i64>(shape.size())));
        if (parts[d] * piece.size > shape[d])
            continue;
        parts[d] *= piece.size;
        made.dims[d].axes.push_back(piece.name);
    }
    for (DimSharding& dim : made.dims) {
        dim.open = forms.open && below(draw, 2) == 0;
        dim.priority = forms.priorities && below(draw, 4) == 0 ? static_cast<int>(below(draw, 3)) : 0;
    }
    return made;
}

} // namespace trivium
