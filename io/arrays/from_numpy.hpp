#pragma once
// Files of arrays from NumPy files (.npy).
#include "base/units.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trivium {

/// An array, from files whose samples follow each other.
struct NumpyArray {
    std::string name;
    std::vector<std::string> files;
    double scale = 1, offset = 0;
    bool bf16 = false; ///< its u16 are the bits of bf16
};

struct NumpyJob {
    std::vector<NumpyArray> arrays;
    std::string output, valid; ///< valid: for samples that are held out; empty: none
    double valid_fraction = 0; ///< of the samples, in (0, 1)
    i64 chunk = 0;             ///< samples per compressed chunk; 0: no chunks
    std::function<void(Bytes done, Bytes total)> on_progress{};
};

/// A file that was written.
struct ArraySummary {
    std::string path;
    i64 samples = 0;
};

/// Writes the files of a job, atomically. The samples that are held out are evenly spread, and depend on the
/// number of samples alone. Memory: a few MiB, or one sample of each array in turn. UserError if a file is
/// not one of NumPy, truncated, in Fortran's order, not of plain numbers, or contains NaN or an infinity, if
/// files of one array differ in type or shape, or if arrays differ in their number of samples; IoError.
std::vector<ArraySummary> write_arrays(const NumpyJob& job);

} // namespace trivium
