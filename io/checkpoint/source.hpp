#pragma once
// The files of a checkpoint, open for reading. Private to CheckpointReader.
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/tensor_record.hpp"
#include "io/files/blocks.hpp"

#include <map>
#include <optional>

namespace trivium {

class CheckpointSource {
public:
    /// Opens the index; shards are opened when something in them is needed. Errors as Index::open.
    CheckpointSource(const std::string& path, Manifest manifest);

    const RunState& state() const { return manifest_.state; }
    Bytes bytes() const; ///< of all files but the manifest
    i64 shards() const;  ///< files with tensors

    /// Tensors are numbered in order of names.
    i64 tensors() const { return index_.size(); }
    TensorHead head(i64 tensor) const { return index_.head(tensor); }
    std::optional<i64> find(const std::string& name) const { return index_.find(name); }
    void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& see) const
    {
        index_.visit_pieces(tensor, see);
    }

    struct Place {
        BlockReader* file; ///< valid until the next call
        Bytes offset;      ///< of the piece in it
    };
    Place locate(const TensorHead& tensor, const StoredPiece& piece);

    /// Checks that everything but the tensors' data is as it was written; with parts, this part of it.
    void check(i64 part, i64 parts);
    /// Checks the data, and what HDF5 sees of it; to be called after check() of the same part.
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
