#pragma once
// Whether the values of a checkpoint can be those of a run: hashes tell that bytes are as they were written,
// and no more.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// What is wrong with the values of a tensor.
struct ValueCounts {
    i64 values = 0;
    i64 not_finite = 0; ///< NaN and infinities
    i64 huge = 0;       ///< finite, of magnitude above 1e18: the square leaves f32
    i64 subnormal = 0;  ///< not zero, and below the smallest normal number of their type

    void add(std::span<const float> values);
    void add(std::span<const double> values);
};

struct ValueFault {
    std::string tensor;
    std::string problem;     ///< "3 of 64 values are not finite"
    bool not_finite = false; ///< otherwise: implausible
};

/// What the counts of the tensor `name` say against it, the worst; none where they say nothing. Implausible
/// are any huge value, and parameters of which more than 1 in 100 are subnormal: so do numbers look whose
/// bytes are in the wrong order.
std::optional<ValueFault> value_fault(const std::string& name, const ValueCounts& counts);

/// Of all tensors, read and verified a bounded part at a time. Errors as CheckpointReader::read.
std::vector<ValueFault> find_value_faults(const CheckpointReader& checkpoint);

/// \throws DamagedCheckpoint if the piece of `checkpoint` that was just read has values that are not
/// finite
void require_finite(const CheckpointReader& checkpoint, const TensorPiece& piece);

} // namespace trivium
