#pragma once
// Samples from files of arrays: what the inputs of a graph read.
#include "io/arrays/array_file.hpp"
#include "train/data/sample_source.hpp"

#include <map>

namespace trivium {

/// The arrays of one file, or of several, whose samples follow each other.
class ArraySamples : public SampleSource {
public:
    /// Opens the files that `name` names (files_of_store()). `inputs`: by name the type of a sample of each
    /// array. UserError if a file lacks one of them, has another shape, numbers of another kind, no samples
    /// or arrays of different lengths; errors of ArrayFile::open().
    ArraySamples(const std::string& name, const std::map<std::string, TensorType>& inputs);

    const std::string& path() const override { return path_; }
    i64 samples() const override { return begins_.back(); }
    const std::vector<Array>& arrays() const override { return arrays_; }
    void read(std::size_t array, i64 sample, const Box& box, void* to) const override;
    /// Zeros.
    void pad(std::size_t array, const Box& box, void* to) const override;
    void will_read(std::size_t array, i64 sample, const Box& box) const override;
    /// "1234 samples, 0123456789abcdef"; the hash is of names, types and shapes, and of ArrayFile::hash().
    std::string content() const override;
    std::string facts() const override;

    /// Of the arrays that are read, as they are stored.
    Bytes stored_bytes() const;
    /// Verifies part `part` of `parts` of all numbers of these arrays. UserError.
    void verify(i64 part, i64 parts) const;

private:
    struct File {
        ArrayFile file;
        std::vector<std::size_t> places; ///< of each of arrays_ in the file
    };
    void add(ArrayFile file, const std::map<std::string, TensorType>& inputs);
    /// The file of a sample, and its number there.
    std::pair<const File*, i64> find(i64 sample) const;

    std::string path_;
    std::vector<Array> arrays_;
    std::vector<File> files_;
    std::vector<i64> begins_{0}; ///< of each file its first sample, then the end
    std::string content_;
};

} // namespace trivium
