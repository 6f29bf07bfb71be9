#pragma once
// The collectives of a rank's graph, for users: what moves, along which axes, for which op.
#include "ir/graph.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trivium {

struct CollectiveEntry {
    std::string kind; ///< all_gather, all_reduce, reduce_scatter, all_to_all, permute, halo
    std::vector<std::string> axes;
    Bytes bytes = 0;                 ///< sent by a rank, averaged over the ranks
    std::string value;               ///< name of the operand
    std::string made;                ///< name of the result
    std::string at;                  ///< the first op that reads the result; empty: it is an output
    int line = 0;                    ///< of the op `at` in the graph's file; 0: none
    std::vector<std::string> more{}; ///< names of the other operands in the same bucket
};

/// "layers.3.ffn.matmul, line 12"; without ", line 12" if the op has no line.
std::string op_and_line(const Op& op);

/// The values of a graph by name. The graph must outlive the map.
using ValueNames = std::unordered_map<std::string_view, ValueId>;
ValueNames values_by_name(const Graph& graph);
/// The value over all ranks of which the local value `local` is a shard: "x" of "x.gathered.slice"; invalid
/// if there is none. `names`: of the graph of all ranks.
ValueId global_value(const ValueNames& names, std::string_view local);

/// In the order of the graph, without messages between stages. Collectives of one kind, each of which moves
/// the result of the one before, are one entry with the axes of all: by dimension, major first.
std::vector<CollectiveEntry> collectives_of(const Graph& local);

} // namespace trivium
