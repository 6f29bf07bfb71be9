#pragma once
// The text form of a graph. A printed graph parses to the same graph.
//
//     graph tiny
//     mesh data=1 pipeline=1 tensor=1
//     at data=0 pipeline=0 tensor=0
//     stages 0 0 1
//     input %tokens : i32[2,8]
//     parameter %table : f32[16,4] init normal(std=0.02) decay
//     carry %grad : f32[16,4]
//     microbatch {
//       @ forward block 0 embed
//       %x = embedding(%table, %tokens) : f32[2,8,4]
//       @ backward block 0 embed
//       %grad' = embedding_grad(%x, %tokens) += %grad {v=16} : f32[16,4]
//     }
//     carried %grad -> %grad'
//     output %grad'
//
// A line `stages` gives the pipeline stage of each block.
// With a line `at` it is one rank's graph: its types are those of the rank's shards, and `of f32[8,8]` after
// a type states the shape over all ranks. `on host` after it: the value is in host memory. A sharding may
// follow a type: <data,tensor+data?@1,-|tensor:sum> lists the axes of each dimension, major first, `-` for
// none, `?` if propagation may add axes, `@` its priority, and after the bar the axes over which the value is
// still partial or (`data:replicated`) which propagation must not use. Ops may stand outside the regions:
// then they are of the microbatch. docs/graphs.md has the grammar. Attributes (attributes.hpp) follow an op;
// numbers are bare, all other values are quoted.
#include "ir/graph.hpp"

namespace trivium {

std::string to_text(const Graph& graph);
/// "<data,->"; empty if nothing is known.
std::string to_text(const Sharding& sharding);
/// The line of op `id`, without indentation.
std::string to_text(const Graph& graph, OpId id);

/// "<data,->" as in the text of a graph. Throws UserError at `place`.
Sharding parse_sharding(std::string_view text, const std::string& place);

/// Parses a graph; verify() checks the result. Names are ASCII; limits.hpp limits the length. Throws
/// UserError with file, line and column. Values and ops keep their line numbers.
Graph parse_graph(std::string_view text, const std::string& file);

} // namespace trivium
