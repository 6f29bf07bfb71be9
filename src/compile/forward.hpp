#pragma once
// Programs that are not trained: evaluation and generation, on any number of ranks.
#include "compile/compile.hpp"

namespace trivium {

enum : std::size_t { only_program = 0 }; ///< of compile_evaluation()
enum : std::size_t { prefill_program = 0, decode_program = 1, score_program = 2 };

/// Whether a config's programs fit the ranks of its grid.
using FitsRanks = std::function<bool(const RunConfig&)>;

/// The config for programs that are not trained, on a grid of `ranks` ranks: the config's own grid, if it has
/// as many, or one rank alone. Otherwise tensor, then pipeline, each with the largest degree that divides
/// both the config's and the ranks left, and data with the other ranks (and no context ranks); if that does
/// not fit, the first grid that does: fewer data ranks come later, and of as many those with more tensor
/// ranks first. If none fits, the one before. train.micro_batch is stated. Throws UserError if the grid of a
/// program of the user's own has other ranks than these.
RunConfig config_on(RunConfig config, i64 ranks, const FitsRanks& fits = {});

/// The program `eval` alone, in the precision of training, of rank `options.rank` of the config's grid.
/// Throws UserError if the model does not fit the grid, or the arena exceeds parallel.memory_limit.
Compiled compile_evaluation(const RunConfig& config, const CompileConfig& options);

struct GenerationShape {
    i64 rows = 1;        ///< sequences computed together; see rows_on()
    i64 prefill = 64;    ///< tokens per sequence and call of `prefill` and `score`
    i64 capacity = 1024; ///< of the KV cache, tokens per sequence
    bool scores = false; ///< with the program `score`
};

/// `rows` rounded up to a multiple of the ranks that share them: data and context.
i64 rows_on(const ParallelConfig& config, i64 rows);
/// The config as compile_generation() uses it: ranks that share the tokens of sequences share sequences
/// instead, which have one new token each; its mesh is the same.
RunConfig generating(RunConfig config);

/// The programs `prefill`, `decode` and perhaps `score` (build_decode_graph()) of rank `options.rank` of the
/// config's grid. Heads, and with them the KV cache, are sharded over tensor ranks, sequences over data
/// ranks, layers over pipeline ranks; with ZeRO 3 each layer's parameters are gathered when it runs. Logits
/// are sharded like their sequences and over tensor ranks; the last pipeline rank has them. \pre shape.rows
/// is a multiple of rows_on(…, 1) \throws UserError as compile_evaluation()
Compiled compile_generation(const RunConfig& config, const GenerationShape& shape,
                            const CompileConfig& options);

} // namespace trivium
