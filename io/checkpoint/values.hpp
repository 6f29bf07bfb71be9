#pragma once
// Checks whether the values of a checkpoint are plausible. (Hashes only detect bytes that differ from what
// was written.)
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

struct ValueFault {
    std::string tensor;
    std::string problem;     ///< "3 of 64 values are not finite"
    bool not_finite = false; ///< otherwise: implausible
};

/// The most serious fault of each tensor that has one. Any value above 1e18 is implausible, and so are
/// parameters with more than 1 % subnormal values: numbers with swapped bytes look like that. Reads and
/// verifies each tensor in ranges of bounded size. Errors as CheckpointReader::read.
std::vector<ValueFault> find_value_faults(const CheckpointReader& checkpoint);

/// `piece`: f32 or f64, just read from `checkpoint`. \throws DamagedCheckpoint if a value is not finite
void require_finite(const CheckpointReader& checkpoint, const TensorPiece& piece);

} // namespace trivium
