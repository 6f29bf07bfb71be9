#pragma once
// A run of two layers that is compiled for a grid, and never run.
#include "compile/compile.hpp"

namespace trivium {

struct Grid {
    i64 data = 1, pipeline = 1, tensor = 1, zero = 0;
    bool sequence = true;
};

inline constexpr int layers = 2;

inline RunConfig run_config(Family family, const Grid& grid)
{
    RunConfig c;
    set_family(c.model, family);
    c.model.layers = layers;
    c.model.dim = 16;
    c.model.heads = 4;
    c.model.ffn_dim = 24;
    c.model.vocab = 20;
    c.model.seq = 8;
    c.train.global_batch = 8;
    c.train.micro_batch = 8 / grid.data / 4; // four microbatches
    c.parallel.data = grid.data;
    c.parallel.pipeline = grid.pipeline;
    c.parallel.tensor = grid.tensor;
    c.parallel.zero = grid.zero;
    c.parallel.sequence = grid.sequence;
    resolve_and_validate(c);
    return c;
}

/// The same with uneven extents; `odd` (0 to 2) chooses which. Two microbatches.
inline RunConfig odd_config(Family family, const Grid& grid, bool tied, i64 odd)
{
    RunConfig c = run_config(family, {});
    c.model.dim = 12 + 3 * odd;
    c.model.heads = 3;
    c.model.head_dim = 0;
    c.model.kv_heads = family == Family::llama && odd == 1 ? 1 : 3;
    c.model.ffn_dim = 17 + odd;
    c.model.vocab = 13 + 2 * odd;
    c.model.seq = 7 + odd;
    c.model.tied_embeddings = tied;
    c.train.global_batch = 24;
    c.train.micro_batch = 24 / grid.data / 2;
    c.parallel.data = grid.data;
    c.parallel.pipeline = grid.pipeline;
    c.parallel.tensor = grid.tensor;
    c.parallel.zero = grid.zero;
    c.parallel.sequence = grid.sequence;
    return c;
}

} // namespace trivium
