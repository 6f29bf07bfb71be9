#pragma once
// The safetensors format of Hugging Face (https://github.com/huggingface/safetensors), one file or a folder
// of shards:
//
//   8 bytes   length of the header, little endian
//   header    JSON: {"__metadata__": {text: text},
//                    NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//   data      little endian, row-major, without holes or overlaps; the offsets are relative to its begin
//
// A folder contains model.safetensors; or model-00001-of-00003.safetensors, … and
// model.safetensors.index.json, whose "weight_map" maps each tensor to its file.
#include "base/units.hpp"
#include "io/files/files.hpp"
#include "ir/type.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// A tensor of a file, of any type of the format. Values of "F32", "BF16", "F16" and "F64" can be read.
struct SafetensorsEntry {
    std::string name;
    std::string type; ///< the format's name, such as "BF16"
    Shape shape;
    Bytes begin = 0; ///< offset in the data
    Bytes bytes = 0;
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> tensors; ///< in the order of their data
    std::map<std::string, std::string> metadata{};
    Bytes data_begin = 0; ///< offset in the file
};

/// Limit on the header: a model has several hundred tensors, with about 100 bytes each.
inline constexpr Bytes max_header_bytes = Bytes{8} << 20;

/// Limit on the index of shards.
inline constexpr Bytes max_index_bytes = Bytes{32} << 20;

/// Parses the header of a file of `file_bytes`. `front`: the first bytes of the file, at least the whole
/// header. `place` names the file in messages. UserError for any violation of the format; safe for any bytes.
SafetensorsHeader parse_safetensors_header(std::string_view front, Bytes file_bytes,
                                           const std::string& place);

/// The header of a file with these tensors, packed in this order; sets their `begin` and `bytes`. Padded with
/// spaces so that the data begins at a multiple of 8. \pre names are unique, types are known
std::string print_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata);

/// Reads the tensors of a file, or of the shards in a folder. Several threads may read concurrently.
class SafetensorsReader {
public:
    /// Reads the headers. `path`: a file, or a folder with model.safetensors or model.safetensors.index.json.
    /// UserError if a file is missing, index and shards disagree, or a header is invalid; IoError.
    static SafetensorsReader open(const std::string& path);

    const std::vector<SafetensorsEntry>& tensors() const { return tensors_; } ///< sorted by name
    /// Null if there is no tensor of this name.
    const SafetensorsEntry* find(const std::string& name) const;
    Bytes bytes() const; ///< size of all tensors

    /// Reads bytes [begin, begin + to.size()) of the tensor, as stored. UserError if the file was truncated
    /// since open(); IoError. \pre the bytes are inside the tensor
    void read(const SafetensorsEntry& tensor, Bytes begin, std::span<std::byte> to) const;
    /// Reads values [first, first + to.size()), flattened. Rounds F64; other types convert exactly. Errors as
    /// above, and UserError if the type is not F32, BF16, F16 or F64.
    void read(const SafetensorsEntry& tensor, i64 first, std::span<float> to) const;

private:
    struct File;
    SafetensorsReader() = default;
    void add(const std::string& path, const std::map<std::string, std::string>* names,
             const std::string& shard);

    std::vector<SafetensorsEntry> tensors_;
    std::map<std::string, std::shared_ptr<const File>> files_; ///< by name of the tensor
};

/// Writes tensors front to back. Their names, types and shapes must be known at construction.
class SafetensorsWriter {
public:
    /// Writes to `folder`, which must exist: model.safetensors, or if the tensors have more than
    /// `shard_bytes` bytes, shards with an index. Each tensor is in one shard, whatever its size. IoError.
    /// \pre types are "F32" or "BF16", shard_bytes > 0
    /// `file`: the name of one that has all.
    SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors, Bytes shard_bytes,
                      const std::string& file = "model.safetensors");

    /// Appends values of one tensor or of several. Rounds to nearest even for BF16. IoError. \pre the tensors
    /// have room for them
    void write(std::span<const float> values);
    /// Writes the index, if there are several shards. Does not sync: the caller syncs the folder. IoError.
    /// \pre all values have been written
    void close();

    i64 shards() const { return static_cast<i64>(shards_.size()); }
    Bytes bytes() const { return bytes_; } ///< size of all tensors

private:
    struct Shard {
        std::string name;
        std::vector<SafetensorsEntry> tensors;
    };
    void open_next();

    std::string folder_;
    std::vector<Shard> shards_;
    std::unique_ptr<FileWriter> file_;
    std::size_t next_shard_ = 0, tensor_ = 0; ///< tensor_: index in the open shard
    i64 left_ = 0;                            ///< values of that tensor that are missing
    Bytes bytes_ = 0;
};

} // namespace trivium
