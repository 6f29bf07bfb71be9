#pragma once
// The tensors of a program in a safetensors file, by the names of their values. F64, F32, BF16 and I32 are
// the types of a graph.
#include "programs/tensors.hpp"

namespace trivium {

struct NamedTensor {
    std::string name;
    TensorType type;
    const TensorBytes& data; ///< whole
};

/// Reads every value that no op computes, except carries, which are 0, from a file (or a folder of shards, as
/// safetensors.hpp). F16 is converted to the value's type. Throws UserError if a tensor is missing, or has
/// another shape or type.
TensorSource file_source(const Graph& global, const std::string& path);

/// Replaces a file atomically. IoError.
void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors);

} // namespace trivium
