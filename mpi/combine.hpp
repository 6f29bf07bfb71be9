#pragma once
// Reductions and copies on the host.
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// out[i] = ((p0[i] + p1[i]) + p2[i]) + … over `parts`, each [count] of `type`, kept in accumulator_of(type)
/// and rounded once. `out` may be one of the parts. \pre `type` is f64, f32 or bf16; parts is not empty
void combine_parts(DType type, Combine combine, std::span<const std::byte* const> parts, std::byte* out,
                   i64 count);

void combine_blocks(const Combination& combination);
void copy_blocks(std::span<const CopyBlock> blocks);

} // namespace trivium
