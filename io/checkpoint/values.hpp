#pragma once
// Checks whether the values of a checkpoint are plausible. (Hashes only detect bytes that differ from what
// was written.)
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// Counts of suspicious values in a tensor.
struct ValueCounts {
    i64 values = 0;
    i64 not_finite = 0; ///< NaN and infinities
    i64 huge = 0;       ///< finite, magnitude above 1e18: the square nearly overflows f32
    i64 subnormal = 0;  ///< not zero, magnitude below the smallest normal number of the type

    void add(std::span<const float> values);
    void add(std::span<const double> values);
};

struct ValueFault {
    std::string tensor;
    std::string problem;     ///< "3 of 64 values are not finite"
    bool not_finite = false; ///< otherwise: implausible
};

/// The most serious fault of the tensor `name`; nullopt if there is none. Any huge value is implausible, and
/// so are parameters with more than 1 % subnormal values: numbers with swapped bytes look like that.
std::optional<ValueFault> value_fault(const std::string& name, const ValueCounts& counts);

/// The faults of all tensors. Reads and verifies each tensor in ranges of bounded size. Errors as
/// CheckpointReader::read.
std::vector<ValueFault> find_value_faults(const CheckpointReader& checkpoint);

/// `piece`: f32 or f64, just read from `checkpoint`. \throws DamagedCheckpoint if a value is not finite
void require_finite(const CheckpointReader& checkpoint, const TensorPiece& piece);

} // namespace trivium
