#include "io/checkpoint/shard.hpp"

#include "base/check.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
#include "io/files/hdf5.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace trivium {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian, and are written without conversion");

namespace {

constexpr Bytes large_data = Bytes{64} << 20;
constexpr Bytes large_alignment = Bytes{1} << 20; ///< stripes of parallel file systems are multiples
constexpr Bytes small_alignment = Bytes{4} << 10;

Bytes data_bytes(std::span<const ShardPiece> pieces)
{
    Bytes bytes = 0;
    for (const ShardPiece& p : pieces)
        bytes += p.piece->bytes();
    return bytes;
}

/// An estimate of the size of HDF5's metadata; its real size is known only after it is written.
Bytes metadata_guess(std::span<const ShardPiece> pieces)
{
    Bytes bytes = 4096;
    for (const ShardPiece& p : pieces)
        bytes +=
            640 + 3 * static_cast<Bytes>(p.dataset.size()) + 48 * static_cast<Bytes>(p.piece->whole.size());
    return bytes;
}

/// Makes the file with all datasets, without their content. False if the metadata does not fit into [0,
/// header).
bool make_file(const std::string& path, i64 step, std::span<const ShardPiece> pieces, Bytes header,
               i64 blocks)
{
    h5::File file = h5::File::create(path, {.metadata = header - 8 * blocks});
    const Bytes end = header + data_bytes(pieces);
    PlainFile::open_to_write(path).reserve(end); // detects a full disk here rather than in the library
    file.set("format", str(checkpoint_kind, " shard"));
    file.set("version", checkpoint_version);
    file.set("step", step);
    file.set("block_bytes", default_block_bytes);
    bool packed = file.create_dataset("blocks", DType::u64, {blocks}).file_offset() == header - 8 * blocks;
    Bytes at = header;
    for (const ShardPiece& p : pieces) {
        h5::Dataset data = file.create_dataset(p.dataset, p.piece->type, p.piece->box.shape);
        data.set("offset", p.piece->box.offset);
        data.set("whole", p.piece->whole);
        packed = packed && data.file_offset() == at;
        at += p.piece->bytes();
    }
    file.close();
    return packed && PlainFile::open(path, "shard").size() == end;
}

Bytes header_of(Bytes metadata, i64 blocks, Bytes data)
{
    return round_up(metadata + 8 * blocks, data >= large_data ? large_alignment : small_alignment);
}

void write_piece(BlockWriter& writer, const TensorPiece& piece)
{
    if (piece.data != nullptr)
        return writer.write(static_cast<const std::byte*>(piece.data), piece.bytes());
    std::vector<std::byte> part(static_cast<std::size_t>(std::min(default_block_bytes, piece.bytes())));
    for (Bytes at = 0; at < piece.bytes(); at += static_cast<Bytes>(part.size())) {
        part.resize(static_cast<std::size_t>(std::min(static_cast<Bytes>(part.size()), piece.bytes() - at)));
        piece.fetch(at, part);
        writer.write(part.data(), static_cast<Bytes>(part.size()));
    }
}

u64 hash_header(const PlainFile& file, Bytes header)
{
    std::vector<std::byte> content(static_cast<std::size_t>(header));
    file.read(0, content.data(), header);
    return hash_block(content.data(), header);
}

} // namespace

std::string shard_file(i64 rank)
{
    char name[40];
    std::snprintf(name, sizeof name, "shard-%05lld.h5", static_cast<long long>(rank));
    return name;
}

Shard write_shard(const std::string& path, i64 step, std::span<const ShardPiece> pieces)
{
    const Bytes data = data_bytes(pieces);
    const i64 blocks = ceil_div(data, default_block_bytes);
    Bytes metadata = metadata_guess(pieces);
    for (int tries = 1; !make_file(path, step, pieces, header_of(metadata, blocks, data), blocks); ++tries) {
        TRV_CHECK(tries < 8, path, ": HDF5's metadata does not fit into ", metadata, " bytes");
        metadata *= 2;
    }
    const Bytes header = header_of(metadata, blocks, data);
    PlainFile file = PlainFile::open_to_write(path);
    BlockWriter writer(file, header);
    for (const ShardPiece& p : pieces)
        write_piece(writer, *p.piece);
    writer.finish();
    file.write(header - 8 * blocks, writer.hashes().data(), 8 * blocks);
    const Shard shard{header + data, header, hash_header(file, header)};
    file.sync();
    file.close();
    return shard;
}

BlockReader open_shard(const std::string& path, const Shard& shard, Bytes block_bytes)
{
    PlainFile file = open_stored(path, shard.bytes);
    std::vector<std::byte> header(static_cast<std::size_t>(shard.header));
    file.read(0, header.data(), shard.header);
    if (hash_block(header.data(), shard.header) != shard.hash)
        throw DamagedCheckpoint(path, "its header is not the one that was written (its hash differs)");
    const Bytes data = shard.bytes - shard.header;
    std::vector<u64> hashes(static_cast<std::size_t>(ceil_div(data, block_bytes)));
    const auto bytes = hashes.size() * 8;
    if (bytes > header.size())
        throw DamagedCheckpoint(path,
                                str("its header is too small for the hashes of ", hashes.size(), " blocks"));
    std::memcpy(hashes.data(), header.data() + (header.size() - bytes), bytes);
    return {std::move(file), shard.header, data, std::move(hashes), block_bytes};
}

void check_dataset(const h5::File& shard, const std::string& dataset, const TensorPiece& piece, Bytes offset)
{
    const h5::Dataset data = shard.dataset(dataset);
    if (data.type() != piece.type || data.shape() != piece.box.shape ||
        data.get_integers("offset") != piece.box.offset || data.get_integers("whole") != piece.whole ||
        data.file_offset() != offset)
        throw DamagedCheckpoint(shard.path(), str("its dataset '", dataset, "' does not match the index"));
}

} // namespace trivium
