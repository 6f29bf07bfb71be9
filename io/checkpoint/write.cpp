#include "base/check.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/parts.hpp"
#include "io/files/files.hpp"
#include "mpi/records.hpp"

#include <exception>
#include <filesystem>
#include <map>
#include <set>

namespace trivium {

namespace fs = std::filesystem;

namespace {

/// Detects a `folder` that is not shared: then the other ranks' files are on disks of their own nodes.
void require_all_files(const std::string& folder, const Manifest& manifest)
{
    for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
        const Shard& shard = manifest.shards[rank];
        if (shard.bytes == 0)
            continue;
        const std::string path = folder + "/" + shard_file(static_cast<i64>(rank));
        std::error_code error;
        const auto bytes = fs::file_size(path, error);
        if (error || static_cast<Bytes>(bytes) != shard.bytes)
            throw IoError({path, "was written by another rank, and rank 0 cannot see it",
                           error ? error.message() : "its size differs",
                           "set checkpoint.dir to a folder on a file system that all nodes share"});
    }
}

} // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Shard, bytes, header, hash)

TensorPiece whole_tensor(std::string name, Shape shape, DType type, void* data)
{
    Box all{Shape(shape.size(), 0), shape};
    return {std::move(name), std::move(shape), std::move(all), type, data, true, {}};
}

struct CheckpointWriter::Impl {
    Impl(Comm& comm, const std::string& folder, std::vector<TensorPiece> held)
        : world(comm), dir(folder), pieces(std::move(held))
    {
    }

    bool is_rank_0() const { return world.rank() == 0; }

    /// Lays out this rank's pieces in its shard.
    std::vector<TensorRecord> place_pieces()
    {
        std::vector<TensorRecord> records;
        std::map<std::string, std::size_t> known;
        Bytes offset = 0;
        for (const TensorPiece& piece : pieces) {
            // List the tensor even if this rank writes none of it, to detect a tensor that no rank writes.
            const auto [at, is_new] = known.try_emplace(piece.name, records.size());
            if (is_new)
                records.push_back({piece.name, piece.type, piece.whole, {}});
            TensorRecord& record = records[at->second];
            TRV_CHECK(record.type == piece.type && record.shape == piece.whole, "a rank has '", piece.name,
                      "' of two kinds");
            if (!piece.save || piece.count() == 0)
                continue;
            const auto number = static_cast<i64>(record.pieces.size());
            record.pieces.push_back({world.rank(), number, offset, piece.box});
            written.push_back({&piece, dataset_name(piece.name, number)});
            offset += piece.bytes();
        }
        return records;
    }

    /// Removes the temporary folder.
    void abandon() noexcept
    {
        std::error_code ignored;
        if (is_rank_0() && !temporary.empty())
            fs::remove_all(temporary, ignored);
    }

    Comm& world;
    std::string dir;
    std::vector<TensorPiece> pieces;
    std::vector<ShardPiece> written; ///< of pieces
    std::optional<PieceList> list;
    i64 step = 0;
    std::string temporary; ///< folder of the current save
    Shard shard;           ///< written by this rank
    std::exception_ptr failure;
    std::vector<Shard> shards; ///< of all ranks, on rank 0
};

CheckpointWriter::CheckpointWriter(Comm& world, const std::string& dir, std::vector<TensorPiece> pieces)
    : impl_(std::make_unique<Impl>(world, dir, std::move(pieces)))
{
    std::vector<TensorRecord> records;
    succeed_together(world, [&] {
        if (impl_->is_rank_0())
            make_folders(dir);
        records = impl_->place_pieces();
    });
    impl_->list.emplace(PieceList::gather(world, records, dir));
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::begin(i64 step)
{
    Impl& w = *impl_;
    w.step = step;
    w.temporary = w.dir + "/.tmp-" + checkpoint_name(step);
    succeed_together(w.world, [&] {
        if (!w.is_rank_0())
            return;
        make_folders(w.dir);
        remove_leftovers(w.dir);
        make_folders(w.temporary);
    });
}

void CheckpointWriter::write() noexcept
{
    Impl& w = *impl_;
    w.shard = {};
    w.failure = nullptr;
    try {
        if (!w.written.empty())
            w.shard = write_shard(w.temporary + "/" + shard_file(w.world.rank()), w.step, w.written);
    } catch (...) {
        w.failure = std::current_exception();
    }
}

bool CheckpointWriter::failed() const { return impl_->failure != nullptr; }

void CheckpointWriter::collect()
{
    Impl& w = *impl_;
    try {
        succeed_together(w.world, [&] {
            if (w.failure)
                std::rethrow_exception(w.failure);
        });
    } catch (...) {
        w.abandon();
        throw;
    }
    w.shards = gather_records_to_first(w.world, w.shard);
}

std::string CheckpointWriter::publish(const RunState& state)
{
    Impl& w = *impl_;
    const std::string name = checkpoint_name(w.step);
    try {
        Manifest manifest;
        manifest.state = state;
        manifest.shards = w.shards;
        require_all_files(w.temporary, manifest);
        manifest.index = write_index(w.temporary + "/" + index_file, *w.list);
        const std::string text = print_manifest(manifest);
        PlainFile file = PlainFile::open_to_write(w.temporary + "/" + manifest_file);
        file.write(0, text.data(), static_cast<Bytes>(text.size()));
        file.sync();
        file.close();
        sync_path(w.temporary);
        put_in_place(w.dir, w.temporary, name);
    } catch (...) {
        w.abandon();
        throw;
    }
    mark_latest(w.dir, name);
    if (state.best.step == w.step && w.step > 0)
        write_best(w.dir, name);
    return w.dir + "/" + name;
}

void CheckpointWriter::prune(i64 keep, const std::vector<i64>& also)
{
    if (keep <= 0)
        return;
    const std::string newest = checkpoint_name(impl_->step);
    std::set<std::string> others{best_checkpoint(impl_->dir)};
    for (const i64 step : also)
        others.insert(checkpoint_name(step));
    i64 kept = 1;
    for (const std::string& name : list_checkpoints(impl_->dir))
        if (name != newest && ++kept > keep && !others.contains(name))
            remove_checkpoint(impl_->dir, name);
}

std::string save_checkpoint(Comm& world, const std::string& dir, const RunState& state,
                            std::span<const TensorPiece> pieces, i64 keep)
{
    CheckpointWriter writer(world, dir, {pieces.begin(), pieces.end()});
    writer.begin(state.step);
    writer.write();
    writer.collect();
    succeed_together(world, [&] {
        if (world.rank() != 0)
            return;
        writer.publish(state);
        writer.prune(keep);
    });
    return dir + "/" + checkpoint_name(state.step);
}

} // namespace trivium
