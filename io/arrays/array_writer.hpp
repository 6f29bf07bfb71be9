#pragma once
// Writes files of arrays (array_file.hpp describes the format).
#include "base/dtype.hpp"
#include "ir/mesh.hpp"

#include <memory>
#include <string>
#include <vector>

namespace trivium {

struct NewArray {
    std::string name; ///< without '/'
    DType type = DType::f32;
    i64 samples = 0;
    Shape shape;                  ///< of a sample
    double scale = 1, offset = 0; ///< value = stored * scale + offset
};

/// Writes front to back with bounded memory. Not atomic: for replace_file().
class ArrayWriter {
public:
    /// Makes the file. `chunk`: samples per chunk, compressed with gzip; 0: no chunks. UserError if two
    /// arrays have one name, a name is impossible, or a chunk would be too large for HDF5; IoError.
    ArrayWriter(const std::string& path, std::vector<NewArray> arrays, i64 chunk = 0);
    ~ArrayWriter();

    /// Appends whole samples to an array. IoError. \pre not more than it has
    void append(std::size_t array, i64 samples, const void* numbers);
    /// Writes hashes and seal, and closes. IoError. \pre all samples are there
    void finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
