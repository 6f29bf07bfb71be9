#pragma once
// Tensors sharded over the ranks of a mesh in many ways; their values are a function of the global index.
#include "io/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace trivium {

struct TiledTensor {
    std::string name;
    Shape whole;
    DType type;
};

inline const std::vector<TiledTensor>& tiled_tensors()
{
    static const std::vector<TiledTensor> tensors{
        {"param/w", {12, 10}, DType::f32},      {"param/uneven", {7, 5}, DType::f32},
        {"adam_m/w", {12, 10}, DType::f64},     {"param/cube", {5, 4, 6}, DType::f32},
        {"param/norm", {13}, DType::f32},       {"param/scalar", {}, DType::f32},
        {"adam_v/cube", {5, 4, 6}, DType::f64}, {"param/none", {3, 0}, DType::f32}};
    return tensors;
}

/// All values differ, and none is exact in f32.
inline double value_of(const std::string& name, i64 index)
{
    return std::sin(1.0 + static_cast<double>(index) * 0.37 + static_cast<double>(name.size()) +
                    static_cast<double>(name[0]));
}

/// A sharding: the axes of the first dimension and those of the last.
struct Tiling {
    std::string name;
    Mesh mesh;
    std::vector<std::string> first, last;
};

inline const std::vector<Tiling>& tilings()
{
    static const std::vector<Tiling> all{
        {"whole", {{{"a", 1}}}, {}, {}},
        {"rows", {{{"a", 4}}}, {"a"}, {}},
        {"columns", {{{"a", 3}}}, {}, {"a"}},
        {"rows and columns", {{{"a", 2}, {"b", 3}}}, {"a"}, {"b"}},
        {"nested rows, columns", {{{"a", 2}, {"b", 2}, {"c", 2}}}, {"a", "b"}, {"c"}},
        {"nested rows, minor axis first", {{{"a", 2}, {"b", 3}}}, {"b", "a"}, {}},
        {"nested columns", {{{"a", 2}, {"b", 2}}}, {}, {"b", "a"}},
        {"replicas of rows", {{{"replica", 2}, {"a", 3}}}, {"a"}, {}},
        {"replicas, fastest axis", {{{"a", 3}, {"replica", 2}}}, {}, {"a"}},
        {"more ranks than rows", {{{"a", 8}}}, {"a"}, {}}};
    return all;
}

/// The memory and pieces of one rank. The memory extends past each box, to detect writes there.
class RankTensors {
public:
    RankTensors(const Tiling& tiling, i64 rank)
    {
        const Coordinates at = tiling.mesh.coordinates(rank);
        for (const TiledTensor& tensor : tiled_tensors()) {
            Sharding sharding;
            sharding.dims.resize(tensor.whole.size());
            std::vector<std::string> used;
            const auto shard = [&](DimSharding& dim, const std::vector<std::string>& axes) {
                dim.axes.insert(dim.axes.end(), axes.begin(), axes.end());
                used.insert(used.end(), axes.begin(), axes.end());
            };
            if (!tensor.whole.empty()) {
                shard(sharding.dims.front(), tiling.first);
                shard(sharding.dims.back(), tiling.last);
            }
            bool save = true; // only the first of the replicas
            for (std::size_t i = 0; i < tiling.mesh.axes.size(); ++i)
                save = save && (at[i] == 0 ||
                                std::find(used.begin(), used.end(), tiling.mesh.axes[i].name) != used.end());
            add(tensor, box_of(tensor.whole, sharding, tiling.mesh, at), tensor.type, save);
        }
    }
    RankTensors() = default;

    void add(const TiledTensor& tensor, const Box& box, DType type, bool save)
    {
        memory_.push_back(
            std::make_unique<std::vector<double>>(static_cast<std::size_t>(element_count(box.shape)) + 1));
        std::memset(memory_.back()->data(), static_cast<int>(unset), memory_.back()->size() * sizeof(double));
        pieces.push_back({tensor.name, tensor.whole, box, type, memory_.back()->data(), save, {}});
    }

    /// Swaps f32 and f64.
    void convert()
    {
        for (TensorPiece& piece : pieces)
            piece.type = piece.type == DType::f32 ? DType::f64 : DType::f32;
    }

    void fill()
    {
        for (const TensorPiece& piece : pieces)
            for (i64 i = 0; i < piece.count(); ++i) {
                const double value = value_of(piece.name, global_index(piece, i));
                if (piece.type == DType::f32)
                    static_cast<float*>(piece.data)[i] = static_cast<float>(value);
                else
                    static_cast<double*>(piece.data)[i] = value;
            }
    }

    /// The first value that differs from its expected value (rounded to the stored type), or "".
    std::string wrong() const
    {
        for (const TensorPiece& piece : pieces) {
            const DType stored = stored_type(piece.name);
            for (i64 i = 0; i < piece.count(); ++i) {
                double expected = value_of(piece.name, global_index(piece, i));
                if (stored == DType::f32 || piece.type == DType::f32)
                    expected = static_cast<float>(expected);
                const double found = piece.type == DType::f32 ? static_cast<const float*>(piece.data)[i]
                                                              : static_cast<const double*>(piece.data)[i];
                if (std::memcmp(&found, &expected, sizeof found) != 0)
                    return piece.name + " at " + std::to_string(global_index(piece, i));
            }
            const auto* end = static_cast<const std::byte*>(piece.data) + piece.bytes();
            if (!std::all_of(end, end + 8, [](std::byte byte) { return byte == unset; }))
                return piece.name + " past its end";
        }
        return "";
    }

    std::vector<TensorPiece> pieces;

private:
    static constexpr std::byte unset{0xff};

    static DType stored_type(const std::string& name)
    {
        for (const TiledTensor& tensor : tiled_tensors())
            if (tensor.name == name)
                return tensor.type;
        return DType::f32;
    }

    /// Flattened index in the whole tensor of element `local` of the piece.
    static i64 global_index(const TensorPiece& piece, i64 local)
    {
        i64 index = 0, stride = 1;
        for (std::size_t d = piece.whole.size(); d-- > 0;) {
            index += (piece.box.offset[d] + local % piece.box.shape[d]) * stride;
            local /= piece.box.shape[d];
            stride *= piece.whole[d];
        }
        return index;
    }

    std::vector<std::unique_ptr<std::vector<double>>> memory_;
};

/// Saves the tensors sharded by `tiling`, with threads as ranks. Returns the checkpoint's path.
inline std::string save_tiled(const std::string& dir, const Tiling& tiling, i64 step, i64 keep = 0)
{
    std::vector<std::string> paths(static_cast<std::size_t>(tiling.mesh.ranks()));
    run_on_threads(static_cast<int>(tiling.mesh.ranks()), [&](Comm& world) {
        RankTensors own(tiling, world.rank());
        own.fill();
        RunState state;
        state.step = step;
        state.grid = tiling.name;
        state.ranks = world.size();
        paths[static_cast<std::size_t>(world.rank())] = save_checkpoint(world, dir, state, own.pieces, keep);
    });
    return paths.back();
}

} // namespace trivium
