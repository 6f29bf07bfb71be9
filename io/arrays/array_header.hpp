#pragma once
// All of a file of arrays but its numbers. Private to the sources of io/arrays/array_file.hpp.
#include "io/arrays/array_file.hpp"
#include "io/arrays/block_hashes.hpp"
#include "io/files/hdf5.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

struct ArrayHeader {
    /// What reading needs of an array.
    struct Source {
        Bytes at = 0; ///< in the file, if in place
        BlockHashes hashes;
        std::unique_ptr<std::atomic<bool>[]> checked; ///< blocks, if in place
        std::optional<h5::Dataset> dataset;           ///< if not in place
        i64 group = 1;                                ///< samples that HDF5 reads together

        Bytes piece_bytes() const { return hashes.block_bytes > 0 ? hashes.block_bytes : array_block; }
    };

    std::string path;
    Bytes bytes = 0;              ///< of the file
    std::optional<h5::File> hdf5; ///< open while an array is not in place
    std::vector<StoredArray> arrays;
    std::vector<Source> sources;       ///< of each array
    std::vector<std::string> left_out; ///< ArrayFile::left_out()

    /// Reads it with HDF5, which may crash if the file is damaged. UserError. \pre path and bytes are known
    void read_header();
    /// Reads a number of each array that needs HDF5, unless that takes much memory: its index of chunks may
    /// be damaged.
    void try_chunks() const;

    /// Reads a box of consecutive samples with HDF5. UserError. \pre the array is not in place
    void read_samples(std::size_t array, i64 first, i64 count, const Box& box, void* to) const;
    std::string dataset_name(const StoredArray& array) const;
    [[noreturn]] void damaged(const std::string& problem) const;

private:
    void add(const std::string& name);
    void read_hashes(const std::string& of, const StoredArray& array, Source& source) const;
};

inline constexpr const char* make_arrays_again =
    "copy it again whole, or make it again (`trivium data arrays`)";

} // namespace trivium
