#pragma once
// Reductions and copies on the host.
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// Combines `parts`, each [count] of `type`, in order: out[i] = ((p0[i] + p1[i]) + p2[i]) + …, or with
/// another combiner. Accumulates in accumulator_of(type) and rounds once. `out` may be one of the parts. \pre
/// parts is not empty \throws InternalError for types that have no reduction, and for lse of i32
void combine_parts(DType type, Combine combine, std::span<const std::byte* const> parts, std::byte* out,
                   i64 count);

/// Runs the reductions of a round with combine_parts().
void combine_blocks(const Combination& combination);
/// Copies the blocks in order. Skips rows that would be copied to themselves.
void copy_blocks(std::span<const CopyBlock> blocks);

} // namespace trivium
