#pragma once
// From StableHLO text to a graph, and back.
//
// The public function of the text, `main`, becomes a graph: its arguments are inputs, its results the outputs
// %out0, %out1, …; calls and loops with a known number of rounds are written out. i1 becomes i32, 0 or 1;
// other integers become i32 where no op could leave its range, otherwise they are refused.
#include "ir/graph.hpp"

#include <cstddef>

namespace trivium {

struct HloImport {
    std::string parameters{}; ///< a regular expression of the arguments that become parameters
    bool loss = false;        ///< the first result, a scalar, is called `loss`
};

/// A constant with too many different elements for a graph: an input of this name, with these contents,
/// row-major.
struct HloContents {
    std::string name;
    TensorType type;
    std::vector<std::byte> bytes;
};

struct HloGraph {
    Graph graph;
    std::vector<HloContents> contents;
};

/// Throws UserError with file and line for text that is not StableHLO, and for ops and types that a graph
/// cannot express, by name.
HloGraph import_hlo(std::string_view text, const std::string& file, const HloImport& how = {});

/// The ops that import_hlo() reads, by name without the dialect, sorted.
std::vector<std::string> imported_hlo_ops();

/// The forward graph of all ranks as StableHLO text, with the shardings that it states in the form of the
/// dialect sdy. Throws UserError for an op, a region or a role without equivalent, by name.
std::string export_hlo(const Graph& graph);

} // namespace trivium
