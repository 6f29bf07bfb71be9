#pragma once
// The index of a checkpoint, index.h5. For any HDF5 program: each tensor, by name, as a virtual dataset over
// its pieces. For this program, two lists of 64-bit words:
//
//   index/records    u64: one record per tensor (io/checkpoint/tensor_record.hpp), sorted by name
//   index/tensors    u64: the offset of each record, in words
//
// The reader finds a tensor by bisection and reads only its record, so a large index is never in memory as a
// whole.
#include "io/checkpoint/tensor_record.hpp"
#include "io/files/blocks.hpp"
#include "mpi/comm.hpp"

#include <functional>
#include <optional>

namespace trivium {

inline constexpr const char* index_file = "index.h5";

/// The manifest's entry for the index.
struct IndexPlace {
    Bytes bytes = 0;
    Bytes tensors_at = 0; ///< file offset of index/tensors
    i64 tensors = 0;
    Bytes records_at = 0;    ///< file offset of index/records
    i64 words = 0;           ///< 64-bit words in index/records
    std::vector<u64> blocks; ///< hash of each block of the file

    bool operator==(const IndexPlace&) const = default;
};

/// The pieces of all ranks, by tensor, on rank 0; empty on the others. They are in an unnamed file, because
/// they may be many.
class PieceList {
public:
    /// Collective over `world`. `own`: the pieces that this rank writes; `folder`: for the unnamed file.
    /// Works in rounds to bound the memory. Throws on all ranks: InternalError if ranks disagree about a
    /// tensor or the pieces do not tile it; IoError.
    static PieceList gather(Comm& world, const std::vector<TensorRecord>& own, const std::string& folder);

    i64 size() const { return static_cast<i64>(entries_.size()); }
    i64 words() const { return words_; }
    /// Calls `call` with each tensor, sorted by name. IoError.
    void visit(const std::function<void(const TensorRecord&)>& call) const;

private:
    struct Entry {
        std::string name;
        i64 begin = 0, count = 0; ///< in words
        u64 hash = 0;             ///< of these words
    };
    PieceList() = default;
    void add(const TensorRecord& record);

    std::optional<PlainFile> file_; ///< on rank 0
    std::vector<Entry> entries_;
    i64 words_ = 0;
};

/// Writes index.h5. IoError.
IndexPlace write_index(const std::string& path, const PieceList& pieces);

/// The index, open for reading. Not thread-safe. Its functions throw as BlockReader::read, and
/// DamagedCheckpoint if a record is invalid.
class Index {
public:
    /// DamagedCheckpoint if the file is missing or has another size; IoError.
    static Index open(const std::string& path, const IndexPlace& place, Bytes block_bytes);

    i64 size() const { return place_.tensors; }
    TensorHead head(i64 tensor) const;
    std::optional<i64> find(const std::string& name) const;
    void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& call) const;
    void verify(i64 part, i64 parts) { file_->verify(part, parts); }

private:
    Index(BlockReader file, const IndexPlace& place, std::string path);
    i64 begin_of(i64 tensor) const;
    void read_words(i64 begin, i64 count, u64* to) const;

    std::unique_ptr<BlockReader> file_; ///< a pointer, because const reads change its cache
    IndexPlace place_;
    std::string path_;
};

} // namespace trivium
