#include "io/checkpoint/source.hpp"

#include "base/check.hpp"
#include "io/files/damaged.hpp"

#include <algorithm>
#include <filesystem>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t max_open_files = 32;

} // namespace

CheckpointSource::CheckpointSource(const std::string& path, Manifest manifest)
    : path_(path), manifest_(std::move(manifest)),
      index_(Index::open(path + "/" + index_file, manifest_.index, manifest_.block_bytes))
{
}

Bytes CheckpointSource::bytes() const
{
    Bytes bytes = manifest_.index.bytes;
    for (const Shard& shard : manifest_.shards)
        bytes += shard.bytes;
    return bytes;
}

i64 CheckpointSource::shards() const
{
    return std::count_if(manifest_.shards.begin(), manifest_.shards.end(),
                         [](const Shard& shard) { return shard.bytes > 0; });
}

CheckpointSource::Place CheckpointSource::locate(const TensorHead& tensor, const StoredPiece& piece)
{
    if (piece.shard >= static_cast<i64>(manifest_.shards.size()))
        throw DamagedCheckpoint(path_, str("tensor '", tensor.name, "' has a piece in ",
                                           shard_file(piece.shard), ", which is not listed"));
    BlockReader& file = opened(piece.shard);
    if (piece.offset > file.bytes() ||
        element_count(piece.box.shape) > (file.bytes() - piece.offset) / size_of(tensor.type))
        throw DamagedCheckpoint(
            path_, str("tensor '", tensor.name, "' has a piece past the end of ", shard_file(piece.shard)));
    return {&file, piece.offset};
}

void CheckpointSource::check(i64 part, i64 parts)
{
    index_.verify(part, parts);
    for (i64 shard = part; shard < static_cast<i64>(manifest_.shards.size()); shard += parts)
        if (manifest_.shards[static_cast<std::size_t>(shard)].bytes > 0)
            opened(shard);
}

void CheckpointSource::verify(i64 part, i64 parts)
{
    std::map<i64, h5::File> hdf5;
    for (i64 shard = part; shard < static_cast<i64>(manifest_.shards.size()); shard += parts)
        if (manifest_.shards[static_cast<std::size_t>(shard)].bytes > 0) {
            opened(shard).verify(0, 1);
            hdf5.emplace(shard, h5::File::open(path_ + "/" + shard_file(shard)));
            if (hdf5.size() == max_open_files) {
                check_datasets(hdf5);
                hdf5.clear();
            }
        }
    check_datasets(hdf5);
}

/// Checks that the HDF5 datasets of these shards, which other programs read, match the index.
void CheckpointSource::check_datasets(const std::map<i64, h5::File>& hdf5) const
{
    std::string before;
    for (i64 tensor = 0; tensor < tensors() && !hdf5.empty(); ++tensor) {
        const TensorHead h = head(tensor);
        if (tensor > 0 && h.name <= before)
            throw DamagedCheckpoint(path_, str("its index has '", h.name, "' after '", before, "'"));
        before = h.name;
        i64 missing = element_count(h.shape);
        visit_pieces(tensor, [&](const StoredPiece& piece) {
            missing -= element_count(piece.box.shape);
            if (const auto file = hdf5.find(piece.shard); file != hdf5.end())
                check_dataset(file->second, dataset_name(h.name, piece.number),
                              {h.name, h.shape, piece.box, h.type, nullptr, true, {}},
                              manifest_.shards[static_cast<std::size_t>(piece.shard)].header + piece.offset);
        });
        if (missing != 0)
            throw DamagedCheckpoint(path_, str("tensor '", h.name, "' has a hole, or pieces that overlap"));
    }
}

BlockReader& CheckpointSource::opened(i64 shard)
{
    if (const auto known = files_.find(shard); known != files_.end())
        return known->second;
    if (files_.size() >= max_open_files)
        files_.clear();
    return files_
        .emplace(shard, open_shard(path_ + "/" + shard_file(shard),
                                   manifest_.shards[static_cast<std::size_t>(shard)], manifest_.block_bytes))
        .first->second;
}

CheckpointSource open_source(const std::string& path)
{
    const std::string remedy = "name a checkpoint, or the folder of a run's checkpoints (checkpoint.dir)";
    if (!fs::is_directory(path))
        throw UserError({path, fs::exists(path) ? "is not a checkpoint" : "there is no such checkpoint",
                         "a checkpoint is a folder like step-00000100", remedy});
    const std::string name = path + "/" + manifest_file;
    if (!fs::exists(fs::symlink_status(name))) {
        if (!looks_like_checkpoint(path))
            throw UserError({path, "is not a checkpoint, and holds none",
                             str("it has no ", manifest_file, " and no folder like step-00000100"), remedy});
        throw DamagedCheckpoint(path, str("is not a complete checkpoint: it has no ", manifest_file));
    }
    const PlainFile file = open_stored(name);
    if (file.size() > max_manifest_bytes)
        throw DamagedCheckpoint(path, str("its manifest has ", format_bytes(file.size()),
                                          ", and none has more than ", format_bytes(max_manifest_bytes)));
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, text.data(), static_cast<Bytes>(text.size()));
    return {path, parse_manifest(text, path)};
}

} // namespace trivium
