#pragma once
// The tensors of a program in a safetensors file, by the names of their values. Element types are F64, F32,
// BF16 and I32.
#include "programs/tensors.hpp"

namespace trivium {

struct NamedTensor {
    std::string name;
    TensorType type;
    const TensorBytes& data; ///< of the whole tensor
};

/// A source of every value that no op computes, from a file or a folder of shards (safetensors.hpp); carries
/// are 0. F16 is converted to the value's type. Each call of the source reads the whole tensor. Throws
/// UserError if a tensor is missing or has another shape or type, and as SafetensorsReader::open().
TensorSource file_source(const Graph& global, const std::string& path);

/// Replaces a file atomically. Throws IoError if the file cannot be written.
void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors);

} // namespace trivium
