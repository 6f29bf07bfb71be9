#pragma once
// Reductions and copies on the host.
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// out[i] = ((p0[i] + p1[i]) + p2[i]) + … over `parts`, or another combiner, each [count] of `type`, kept in
/// accumulator_of(type) and rounded once. `out` may be one of the parts. \pre parts is not empty
/// \throws InternalError for types that have no reduction, and for lse of i32
void combine_parts(DType type, Combine combine, std::span<const std::byte* const> parts, std::byte* out,
                   i64 count);

void combine_blocks(const Combination& combination);
void copy_blocks(std::span<const CopyBlock> blocks);

} // namespace trivium
