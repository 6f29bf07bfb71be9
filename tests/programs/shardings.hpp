#pragma once
// Shardings of a tensor: all of them, or one at random in any form that the text has.
#include "draw.hpp"
#include "ir/mesh.hpp"

namespace trivium {

/// Each way to put each axis on one dimension or on none, in each order, such that no rank has nothing.
std::vector<Sharding> all_closed_shardings(const Shape& shape, const Mesh& mesh);

/// The axes of a mesh, and how shardings of one program may divide each of them into parts ("x:(1)2").
struct AxisPieces {
    struct Piece {
        std::string name;
        i64 size = 1;
    };
    std::vector<std::vector<Piece>> axes; ///< of each axis: itself, or its parts, major first
};
/// Divides some axes if `divide`. Parts of one program must not overlap.
AxisPieces drawn_pieces(Draw& draw, const Mesh& mesh, bool divide = true);

struct ShardingForms {
    bool open = true, priorities = true, replicated = true;
    bool partial = false; ///< also partial over an axis, for values that no op computes
};
Sharding drawn_sharding(Draw& draw, const TensorType& type, const Mesh& mesh, const AxisPieces& pieces,
                        const ShardingForms& forms);

} // namespace trivium
