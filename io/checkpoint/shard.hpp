#pragma once
// A shard: the HDF5 file of one rank in a checkpoint.
//
//   [0, header)       all of HDF5's metadata, then the dataset "blocks": the hash of each block of data
//   [header, bytes)   the pieces, packed, in blocks
//
// Each piece is a dataset with the tensor's name ("param/x"; further pieces "param/x@1", …) and the
// attributes `offset` and `whole`, so that the file is self-describing. open_shard reads it without HDF5.
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/blocks.hpp"
#include "io/files/hdf5.hpp"

#include <span>

namespace trivium {

/// The manifest's entry for a shard. 0 bytes: the rank had nothing to write.
struct Shard {
    Bytes bytes = 0;
    Bytes header = 0;
    u64 hash = 0; ///< of the header

    bool operator==(const Shard&) const = default;
};

/// "shard-00003.h5", which rank 3 writes.
std::string shard_file(i64 rank);

/// A piece and the name of its dataset.
struct ShardPiece {
    const TensorPiece* piece;
    std::string dataset;
};

/// Writes a shard and syncs it. IoError; then the file at `path` is incomplete.
Shard write_shard(const std::string& path, i64 step, std::span<const ShardPiece> pieces);

/// Opens the data of a shard for reading. IoError; DamagedCheckpoint if the file is missing or has another
/// size, or if its header differs from what was written.
BlockReader open_shard(const std::string& path, const Shard& shard, Bytes block_bytes);

/// Checks that a dataset of a shard, as HDF5 reads it, matches `piece` and is at `offset` in the file, in
/// bytes. DamagedCheckpoint if not; UserError if HDF5 cannot open it. \pre the shard's header has been
/// verified
void check_dataset(const h5::File& shard, const std::string& dataset, const TensorPiece& piece, Bytes offset);

} // namespace trivium
