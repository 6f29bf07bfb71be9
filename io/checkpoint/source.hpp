#pragma once
// The files of a checkpoint, open for reading. Private to CheckpointReader.
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/tensor_record.hpp"
#include "io/files/blocks.hpp"

#include <map>
#include <optional>

namespace trivium {

/// Not thread-safe.
class CheckpointSource {
public:
    /// Opens the index; opens shards on first use. Errors as Index::open.
    CheckpointSource(const std::string& path, Manifest manifest);

    const RunState& state() const { return manifest_.state; }
    Bytes bytes() const; ///< of all files but the manifest
    i64 shards() const;  ///< number of shards with data

    /// Tensors are numbered by sorted name.
    i64 tensors() const { return index_.size(); }
    TensorHead head(i64 tensor) const { return index_.head(tensor); }
    std::optional<i64> find(const std::string& name) const { return index_.find(name); }
    void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& call) const
    {
        index_.visit_pieces(tensor, call);
    }

    struct Place {
        BlockReader* file; ///< the data of the shard; valid until the next call of this object
        Bytes offset;      ///< of the piece in these data
    };
    /// Opens the shard of a piece. DamagedCheckpoint if the piece is not inside the data of a listed shard.
    Place locate(const TensorHead& tensor, const StoredPiece& piece);

    /// As CheckpointReader::check.
    void check(i64 part, i64 parts);
    /// Verifies the data, and that the HDF5 datasets match the index. \pre check() of the same part
    void verify(i64 part, i64 parts);

private:
    void check_datasets(const std::map<i64, h5::File>& hdf5) const;
    BlockReader& opened(i64 shard);

    std::string path_;
    Manifest manifest_;
    Index index_;
    std::map<i64, BlockReader> files_; ///< open now
};

/// The checkpoint in the folder `path`. UserError, DamagedCheckpoint, IoError.
CheckpointSource open_source(const std::string& path);

} // namespace trivium
