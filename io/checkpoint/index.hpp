#pragma once
// The index of a checkpoint, index.h5: every tensor by name as a virtual dataset over the pieces, for any
// program that reads HDF5; and for this one, two lists:
//
//   index/records    u64: a record for each tensor (io/checkpoint/tensor_record.hpp), sorted by name
//   index/tensors    u64: the word at which each record begins
//
// A reader finds a tensor by bisection and reads its record alone, so a large index is never in memory as a
// whole.
#include "io/checkpoint/tensor_record.hpp"
#include "io/files/blocks.hpp"
#include "mpi/comm.hpp"

#include <functional>
#include <optional>

namespace trivium {

inline constexpr const char* index_file = "index.h5";

/// What the manifest knows of an index.
struct IndexPlace {
    Bytes bytes = 0;
    Bytes tensors_at = 0; ///< of the file
    i64 tensors = 0;
    Bytes records_at = 0;
    i64 words = 0;
    std::vector<u64> blocks; ///< hash of each block of the file

    bool operator==(const IndexPlace&) const = default;
};

/// What all ranks will write, tensor by tensor, on rank 0; in a file without a name, as it may be large.
class PieceList {
public:
    /// All ranks of `world` call it with what they write themselves. In rounds, so that no rank holds more
    /// than some ten thousand records. All throw InternalError if ranks differ about a tensor or the
    /// pieces do not tile it. `folder`: for the file. IoError.
    static PieceList gather(Comm& world, const std::vector<TensorRecord>& own, const std::string& folder);

    i64 size() const { return static_cast<i64>(entries_.size()); }
    i64 words() const { return words_; }
    /// In order of names. IoError.
    void visit(const std::function<void(const TensorRecord&)>& see) const;

private:
    struct Entry {
        std::string name;
        i64 begin = 0, count = 0; ///< words
        u64 hash = 0;             ///< of them
    };
    PieceList() = default;
    void add(const TensorRecord& record);

    std::optional<PlainFile> file_; ///< on rank 0
    std::vector<Entry> entries_;
    i64 words_ = 0;
};

/// IoError.
IndexPlace write_index(const std::string& path, const PieceList& pieces);

class Index {
public:
    /// Errors as BlockReader's.
    static Index open(const std::string& path, const IndexPlace& place, Bytes block_bytes);

    i64 size() const { return place_.tensors; }
    TensorHead head(i64 tensor) const;
    std::optional<i64> find(const std::string& name) const;
    void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& see) const;
    void verify(i64 part, i64 parts) { file_->verify(part, parts); }

private:
    Index(BlockReader file, const IndexPlace& place, std::string path);
    i64 begin_of(i64 tensor) const;
    void read_words(i64 begin, i64 count, u64* to) const;

    std::unique_ptr<BlockReader> file_; ///< its cache changes
    IndexPlace place_;
    std::string path_;
};

} // namespace trivium
