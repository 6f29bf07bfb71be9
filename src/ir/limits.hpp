#pragma once
// Maximum sizes of a graph. Within them, sums of bytes fit into 64 bits and every pass ends within minutes.
#include "base/units.hpp"

#include <cstddef>

namespace trivium {

inline constexpr i64 max_ranks = i64{1} << 20; ///< of a mesh
inline constexpr std::size_t max_mesh_axes = 8;
inline constexpr i64 max_priority = 1000;         ///< of a dimension's sharding
inline constexpr std::size_t max_dims = 16;       ///< of a tensor
inline constexpr i64 max_elements = i64{1} << 48; ///< of a tensor
inline constexpr Bytes max_graph_tensors =
    i64{1} << 58; ///< of all tensors of a graph together, and of one op's operands and results
inline constexpr i64 max_blocks = 8192; ///< of a model: its layers, the embedding and the head
inline constexpr i64 max_tags = 1024;   ///< of messages from one rank to another (mpi/comm.hpp)

// Of a graph's text.
inline constexpr std::size_t max_text_bytes = std::size_t{64} << 20;
inline constexpr std::size_t max_text_values = 200'000;
inline constexpr std::size_t max_text_ops = 100'000;
inline constexpr std::size_t max_text_operands = 10'000; ///< of one op; also its results, and its attributes

} // namespace trivium
