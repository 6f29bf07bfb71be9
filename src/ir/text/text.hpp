#pragma once
// The text form of a graph. A printed graph parses to one that prints the same text. Notes of passes are not
// printed: Op::division, Op::stays_partial, Sharding::origin.
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
// A line `stages` gives the pipeline stage of each block. With a line `at` it is one rank's graph: its types
// are those of the rank's shards, and `of f32[8,8]` after a type states the shape over all ranks. `on host`
// places a value in host memory. A sharding may follow a type: <data,tensor+data?@1,-|tensor:sum> lists the
// axes of each dimension, major first, `-` for none, `?` if propagation may add axes, `@` its priority, and
// after the bar the axes over which the value is still partial or (`data:replicated`) which propagation must
// not use. Ops outside the regions belong to the microbatch. Attributes (attributes.hpp) follow an op;
// numbers are bare, all other values are quoted. `size b=8` names a size for expressions in types and
// attributes, `repeat i 12 {` … `}` repeats lines with $i = 0 to 11. docs/graphs.md has the grammar.
#include "ir/graph.hpp"
#include "ir/text/sizes.hpp"

namespace trivium {

std::string to_text(const Graph& graph);
/// "<data,->"; "" if the sharding states nothing.
std::string to_text(const Sharding& sharding);
/// The line of op `id`, without indentation.
std::string to_text(const Graph& graph, OpId id);

/// "<data,->" as in the text of a graph. Throws UserError at `place` if `text` is not a sharding.
Sharding parse_sharding(std::string_view text, const std::string& place);

/// What a text leaves open.
struct TextSettings {
    NamedSizes sizes{};         ///< override those that a line `size` declares
    DType compute = DType::f32; ///< the element type `compute`; f64 also makes all other floating types f64
    /// Shard each dimension of an input, or of an annotated value, whose extent names the size `b`, before
    /// the axes that the text states there.
    std::vector<std::string> batch_axes{};
    NamedSizes* declared{}; ///< gets the sizes of the text; may be null
};

/// Parses a graph; verify() checks the result. Throws UserError with file, line and column if the text
/// violates the grammar, is not ASCII outside comments, or exceeds limits.hpp. Values and ops keep their line
/// numbers.
Graph parse_graph(std::string_view text, const std::string& file, const TextSettings& settings = {});

} // namespace trivium
