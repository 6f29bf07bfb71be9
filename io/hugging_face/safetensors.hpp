#pragma once
// The safetensors format of Hugging Face (https://github.com/huggingface/safetensors), one file or a folder
// of shards:
//
//   8 bytes                the length of the header, little endian
//   JSON                   {"__metadata__": {text: text}, NAME: {"dtype": "F32", "shape": [2, 3],
//   "data_offsets": [0, 24]}, …} data                   little endian, row-major; offsets count from here,
//   without holes or overlaps
//
//   model.safetensors, or model-00001-of-00003.safetensors, … and model.safetensors.index.json, which says in
//   "weight_map" in which file each tensor is
#include "base/units.hpp"
#include "io/files/files.hpp"
#include "ir/type.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// A tensor of a file. Of any type that the format knows; "F32", "BF16", "F16" and "F64" can be read as
/// values.
struct SafetensorsEntry {
    std::string name;
    std::string type; ///< as the format has it
    Shape shape;
    Bytes begin = 0; ///< in the data
    Bytes bytes = 0;
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> tensors; ///< by place in the data
    std::map<std::string, std::string> metadata{};
    Bytes data_begin = 0; ///< in the file
};

/// The longest header that is read: a model has some hundreds of tensors, of a hundred bytes each.
inline constexpr Bytes max_header_bytes = Bytes{8} << 20;

/// The longest index of shards that is read.
inline constexpr Bytes max_index_bytes = Bytes{32} << 20;

/// The header at the front of a file of `file_bytes`. `front`: the first bytes, all of the header or more.
/// `place` stands for the file in messages. UserError for anything that the format forbids; safe for any
/// bytes.
SafetensorsHeader parse_safetensors_header(std::string_view front, Bytes file_bytes,
                                           const std::string& place);

/// What a file begins with that holds these tensors in this order, their data behind each other; `begin` and
/// `bytes` are filled in. Padded with spaces so that the data begins at a multiple of 8. \pre names differ;
/// types are known
std::string print_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata);

/// Tensors of a file, or of a folder's shards.
class SafetensorsReader {
public:
    /// `path`: a file, or a folder with model.safetensors or model.safetensors.index.json. Reads the headers.
    /// UserError if there is none, a shard is missing, index and shards do not agree, or a header is
    /// wrong.
    static SafetensorsReader open(const std::string& path);

    const std::vector<SafetensorsEntry>& tensors() const { return tensors_; } ///< by name
    /// Null where there is none of this name.
    const SafetensorsEntry* find(const std::string& name) const;
    Bytes bytes() const; ///< of all tensors

    /// Bytes [begin, begin + to.size()) of the tensor's content, as stored. IoError. \pre they are in it
    void read(const SafetensorsEntry& tensor, Bytes begin, std::span<std::byte> to) const;
    /// Values [first, first + to.size()), flattened; F64 is rounded, the rest is exact. UserError if the
    /// type is none of F32, BF16, F16 and F64.
    void read(const SafetensorsEntry& tensor, i64 first, std::span<float> to) const;

private:
    struct File;
    SafetensorsReader() = default;
    void add(const std::string& path, const std::map<std::string, std::string>* names,
             const std::string& shard);

    std::vector<SafetensorsEntry> tensors_;
    std::map<std::string, std::shared_ptr<const File>> files_; ///< by name of the tensor
};

/// Writes files of tensors whose names, types and shapes are known first and whose data comes front to back.
class SafetensorsWriter {
public:
    /// Into `folder`, which exists: model.safetensors; where the tensors have more than `shard_bytes` of
    /// data, shards with an index. A tensor is in one shard, whatever its size. Tensors are "F32" or "BF16".
    /// \pre shard_bytes > 0
    SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors, Bytes shard_bytes);

    /// The next values, of one tensor or of several; BF16 is rounded to nearest even. IoError
    void write(std::span<const float> values);
    /// Writes the index. Nothing is synced: the caller syncs the folder. \pre all data was given
    void close();

    i64 shards() const { return static_cast<i64>(shards_.size()); }
    Bytes bytes() const { return bytes_; } ///< of all tensors

private:
    struct Shard {
        std::string name;
        std::vector<SafetensorsEntry> tensors;
    };
    void open_next();

    std::string folder_;
    std::vector<Shard> shards_;
    std::unique_ptr<FileWriter> file_;
    std::size_t next_shard_ = 0, tensor_ = 0; ///< tensor_: of the open shard
    i64 left_ = 0;                            ///< values of that tensor
    Bytes bytes_ = 0;
};

} // namespace trivium
