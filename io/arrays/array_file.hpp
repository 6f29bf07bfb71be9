#pragma once
// Files of arrays for training: HDF5 files with one dataset per array, outside of groups, whose first
// dimension is that of the samples. Any program may write them.
//
//   NAME                   numbers [samples, …]: f16, f32, f64, i8 to i64, u8 to u64. Attributes, all
//   optional:
//                          scale, offset   value = stored * scale + offset (also netCDF's scale_factor and
//                                          add_offset)
//                          type = "bf16"   the u16 are the bits of bf16
//   trivium_hashes/NAME    u64, optional: XXH3 of each `block_bytes` (attribute) bytes of the numbers of NAME
//   in
//                          row-major order, the last block shorter
//
// `trivium data arrays` writes the hashes. If its datasets are not in chunks, its files begin with a seal
// (io/files/seal.hpp), which is checked before HDF5 opens the file; chunks have HDF5's checksums.
#include "base/dtype.hpp"
#include "io/files/open_files.hpp"
#include "ir/mesh.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trivium {

inline constexpr const char* array_file_kind = "Trivium arrays";
inline constexpr i64 array_file_version = 1;
inline constexpr const char* array_hashes = "trivium_hashes";
/// Smallest block with a hash. Larger arrays have larger blocks, so that they have at most 2^20.
inline constexpr Bytes array_block = Bytes{256} << 10;

/// Whether the file at `path` begins like an HDF5 file or a file of arrays, so that it is no store of tokens.
bool holds_arrays(const std::string& path);

/// A dataset.
struct StoredArray {
    std::string name;
    DType type = DType::f32;
    i64 samples = 0;
    Shape shape;                  ///< of a sample
    double scale = 1, offset = 0; ///< value = stored * scale + offset
    Shape chunk;                  ///< with the samples; empty: not in chunks
    bool in_place = false;        ///< read without HDF5
    bool hashed = false;
    std::string defect; ///< why it cannot be read, "was never written whole"; empty: it can

    i64 elements() const { return element_count(shape); } ///< of a sample
    Bytes sample_bytes() const { return elements() * size_of(type); }
};

/// Read-only. Movable. Several threads may read concurrently; datasets that are in chunks, compressed or
/// big-endian one after the other. Functions that read throw a UserError with the dataset if a block differs
/// from what was written, or if the file was truncated; IoError.
class ArrayFile {
public:
    /// Reads all but the numbers. UserError if the file is missing, no HDF5 file, truncated or damaged, or
    /// has no dataset with samples; IoError. `group`: the files of which a limited number are open.
    static ArrayFile open(const std::string& path,
                          std::shared_ptr<OpenFiles> group = std::make_shared<OpenFiles>());
    ArrayFile(ArrayFile&&) noexcept;
    ArrayFile& operator=(ArrayFile&&) noexcept;
    ~ArrayFile();

    const std::string& path() const;
    const std::vector<StoredArray>& arrays() const; ///< in order of name
    /// Names of the datasets that are not arrays: not of these types, or without a dimension.
    const std::vector<std::string>& left_out() const;
    /// Index of the array called `name`; arrays().size() if there is none.
    std::size_t find(const std::string& name) const;

    /// Writes the elements in `box` of a sample to `out`, row-major, as numbers of type `to`. Verifies the
    /// blocks that contain them when they are first read. UserError with the sample and the place if a number
    /// is NaN or infinite, or does not fit `to`. \pre is_convertible(type, to), no defect
    void read(std::size_t array, i64 sample, const Box& box, DType to, void* out) const;
    /// Asks the system to read that box ahead, if it is read in place; does not wait.
    void will_read(std::size_t array, i64 sample, const Box& box) const;

    /// Into how many pieces scan() divides an array.
    i64 pieces(std::size_t array) const;
    /// Numbers [first, first + count) of an array, flattened, as they are stored.
    using Visit = std::function<void(i64 first, i64 count, const void* stored)>;
    /// Calls `visit` with all numbers of an array in order, in pieces, of which it takes part, part + parts,
    /// part + 2 * parts, …, and verifies their hashes (in chunks only if parts is 1). UserError if the array
    /// has a defect.
    void scan(std::size_t array, const Visit& visit, i64 part = 0, i64 parts = 1) const;
    /// UserError if scan() finds a wrong hash, NaN or an infinity.
    void verify(std::size_t array, i64 part = 0, i64 parts = 1) const;
    /// Of the hashes of an array; without hashes, of its numbers up to 64 MiB, beyond of up to 256 pieces
    /// that are evenly spread.
    u64 hash(std::size_t array) const;

    /// UserError: sample `sample` has a number that training cannot use. `index`: in the sample.
    [[noreturn]] void refuse_number(std::size_t array, i64 sample, i64 index, double number, DType to) const;

private:
    struct Impl;
    explicit ArrayFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
