#pragma once
// The local work of a collective on a device: strided copies and reductions, as kernels on a stream.
#include "kernels/exec.hpp"
#include "mpi/collective_rounds.hpp"

#include <span>

namespace trivium {

/// See copy_blocks(). Addresses, sizes and strides are multiples of 2.
void copy_on_device(std::span<const CopyBlock> blocks, const kernels::Exec& exec);
/// See combine_blocks(); with the device's exp and log1p for lse.
void combine_on_device(const Combination& combination, const kernels::Exec& exec);

} // namespace trivium
