#pragma once
// A shard: the HDF5 file that one rank writes of a checkpoint.
//
//   [0, header)       all of HDF5's metadata, and last the dataset "blocks": the hash of each block of data
//   [header, bytes)   the pieces, packed, in blocks
//
// Each piece is a dataset by the tensor's name ("param/x", and "param/x@1", … for further pieces of it) with
// attributes `offset` and `whole`, so that the file explains itself; a reader here needs no HDF5.
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/blocks.hpp"
#include "io/files/hdf5.hpp"

#include <span>

namespace trivium {

/// What the manifest knows of a shard. No bytes: the rank had nothing to write.
struct Shard {
    Bytes bytes = 0;
    Bytes header = 0;
    u64 hash = 0; ///< of the header

    bool operator==(const Shard&) const = default;
};

/// "shard-00003.h5", which rank 3 writes.
std::string shard_file(i64 rank);

/// A piece, and the dataset that it becomes.
struct ShardPiece {
    const TensorPiece* piece;
    std::string dataset;
};

/// Writes a shard and syncs it. IoError; what is then in `path` is of no use.
Shard write_shard(const std::string& path, i64 step, std::span<const ShardPiece> pieces);

/// The data of a shard, for reading. UserError, IoError, DamagedCheckpoint if the header is not the one
/// that was written or the file has another size.
BlockReader open_shard(const std::string& path, const Shard& shard, Bytes block_bytes);

/// Whether HDF5 sees in a shard, whose header has been verified, the piece that was written there.
/// DamagedCheckpoint.
void check_dataset(const h5::File& shard, const std::string& dataset, const TensorPiece& piece, Bytes offset);

} // namespace trivium
