#pragma once
// The collectives of a rank's graph as users think of them: what moves, along which axes, for which op.
#include "ir/graph.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trivium {

struct CollectiveEntry {
    std::string kind; ///< all_gather, all_reduce, reduce_scatter, all_to_all, permute, halo
    std::vector<std::string> axes;
    Bytes bytes = 0;                 ///< that a rank sends, on average
    std::string value;               ///< what moves
    std::string made;                ///< what it becomes
    std::string at;                  ///< the first op that reads the result; empty: it is an output
    int line = 0;                    ///< of that op in the graph's file; 0: none
    std::vector<std::string> more{}; ///< what moves with it, in the same bucket
};

/// "layers.3.ffn.matmul, line 12"; without a line, the op alone.
std::string op_and_line(const Op& op);

/// The values of a graph by name. The graph must outlive it.
using ValueNames = std::unordered_map<std::string_view, ValueId>;
ValueNames values_by_name(const Graph& graph);
/// The value over all ranks of which a local value is a shard: "x" of "x.gathered.slice"; or none.
ValueId global_value(const ValueNames& names, std::string_view local);

/// In the order of the graph. Neighbours of one kind that move the same value, one after the other, are one
/// entry with the axes of all: by dimension, major first.
std::vector<CollectiveEntry> collectives_of(const Graph& local);

} // namespace trivium
