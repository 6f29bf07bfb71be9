#pragma once
// What a CheckpointReader reads, of whatever version. Private to it.
#include "io/checkpoint/tensor_record.hpp"
#include "io/files/blocks.hpp"

#include <memory>
#include <optional>

namespace trivium {

class CheckpointSource {
public:
    virtual ~CheckpointSource() = default;

    RunState state;
    i64 version = 0;
    Bytes bytes = 0; ///< of all files but the manifest
    i64 shards = 0;  ///< files with tensors

    /// Tensors are numbered in order of names.
    virtual i64 tensors() const = 0;
    virtual TensorHead head(i64 tensor) const = 0;
    virtual std::optional<i64> find(const std::string& name) const = 0;
    virtual void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& see) const = 0;

    struct Place {
        BlockReader* file; ///< valid until the next call
        Bytes offset;      ///< of the piece in it
    };
    virtual Place locate(const TensorHead& tensor, const StoredPiece& piece) = 0;

    /// Everything but the tensors' data is as it was written; with parts, this part of it.
    virtual void check(i64 part, i64 parts) = 0;
    /// The data, and what HDF5 sees of it. \pre check() has found nothing
    virtual void verify(i64 part, i64 parts) = 0;
};

/// The checkpoint in the folder `path`. UserError, DamagedCheckpoint, IoError.
std::unique_ptr<CheckpointSource> open_source(const std::string& path);
/// One of version 1 or 2, whose manifest has this text.
std::unique_ptr<CheckpointSource> open_old_source(const std::string& path, const std::string& manifest);

} // namespace trivium
