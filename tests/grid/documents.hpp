#pragma once
// Documents in the sequences of a batch, and each of them alone.
#include "config/data_config.hpp"
#include "runtime/harness.hpp"

namespace trivium::grids {

/// Divides the tokens of a batch into documents of a third of a sequence to a whole one, laid out as
/// `packing` does: the starts, and the targets without a loss. Deterministic for a `seed`.
void draw_documents(runs::TokenBatch& batch, SamplePacking packing, u64 seed);

/// Each document of a batch at the begin of one of `rows` sequences. What follows it there has no loss.
runs::TokenBatch documents_apart(const runs::TokenBatch& batch, i64 rows);

} // namespace trivium::grids
