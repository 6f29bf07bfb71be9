#include "base/check.hpp"
#include "io/checkpoint_parts.hpp"
#include "io/files.hpp"
#include "io/hash.hpp"
#include "io/manifest.hpp"

#include <filesystem>
#include <map>

namespace trivium {

namespace fs = std::filesystem;

namespace {

void write_state(const std::string& path, const RunState& state)
{
    h5::File file = h5::File::create(path);
    file.set("format", std::string(checkpoint_kind));
    file.set("version", checkpoint_version);
    file.set("step", state.step);
    file.set("updates", state.updates);
    file.set("samples", state.samples);
    file.set("tokens", state.tokens);
    file.set("seed", state.seed);
    file.set("build", state.build);
    file.set("tokenizer", state.tokenizer);
    file.set("grid", state.grid);
    file.set("ranks", state.ranks);
    file.write_bytes("config", state.config); // may be longer than an attribute may
    file.close();
}

/// A file that is written and on the disk, as the manifest has it.
Manifest::File finished_file(const std::string& folder, const std::string& name)
{
    const std::string path = folder + "/" + name;
    sync_path(path);
    return {name, file_size(path), hex(hash_file(path))};
}

/// Writes the pieces of one rank. Offset and whole shape stand beside each, so that the file explains itself.
void write_shard(const std::string& path, std::span<const TensorPiece> pieces, const std::vector<std::string>& datasets, i64 step)
{
    h5::File file = h5::File::create(path);
    Bytes bytes = Bytes{64} << 10;
    for (std::size_t i = 0; i < pieces.size(); ++i)
        if (!datasets[i].empty())
            bytes += pieces[i].bytes() + 2048; // a header, attributes, a name in its group
    file.reserve(bytes);
    file.set("format", str(checkpoint_kind, " shard"));
    file.set("version", checkpoint_version);
    file.set("step", step);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (datasets[i].empty())
            continue;
        const TensorPiece& piece = pieces[i];
        h5::Dataset data = file.create_dataset(datasets[i], type_of(piece.type), piece.box.shape);
        data.set("offset", piece.box.offset);
        data.set("whole", piece.whole);
        data.write(0, piece.count(), type_of(piece.type), piece.data);
    }
    file.close();
}

/// Writes this rank's shard, where it has anything to save, and says what it holds.
Manifest save_pieces(const std::string& folder, int rank, i64 step, std::span<const TensorPiece> pieces)
{
    Manifest part;
    part.step = step;
    const std::string name = shard_file(rank);
    std::vector<std::string> datasets(pieces.size()); ///< "": not written
    std::map<std::string, i64> boxes;                 ///< of a tensor, so far
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const TensorPiece& piece = pieces[i];
        // Listed even where nothing of it is written here: a tensor that no rank writes is a hole.
        Manifest::Tensor tensor{piece.name, piece.type, piece.whole, {}};
        if (piece.save && piece.count() > 0) {
            const i64 before = boxes[piece.name]++;
            datasets[i] = before == 0 ? piece.name : str(piece.name, "@", before);
            tensor.pieces.push_back({name, datasets[i], piece.box});
        }
        part.tensors.push_back(std::move(tensor));
    }
    if (!boxes.empty()) {
        write_shard(folder + "/" + name, pieces, datasets, step);
        part.files.push_back(finished_file(folder, name));
    }
    return part;
}

/// Each rank has written into its own folder where `folder` is on a disk of one node.
void require_all_files(const std::string& folder, const Manifest& manifest)
{
    for (const Manifest::File& file : manifest.files) {
        std::error_code error;
        const auto bytes = fs::file_size(folder + "/" + file.name, error);
        if (error || static_cast<Bytes>(bytes) != file.bytes)
            throw IoError({folder + "/" + file.name, "was written by another rank, and rank 0 cannot see it", error ? error.message() : "its size differs",
                           "set checkpoint.dir to a folder on a file system that all nodes share"});
    }
}

/// Gives the finished folder its name. One of that name, of the same step before a restart, goes.
void put_in_place(const std::string& dir, const std::string& temporary, const std::string& name)
{
    const std::string path = dir + "/" + name, old = dir + "/.old-" + name;
    const bool again = fs::exists(path);
    if (again)
        rename_path(path, old);
    try {
        rename_path(temporary, path);
    } catch (...) {
        if (again)
            rename_path(old, path);
        throw;
    }
    sync_path(dir);
    if (again)
        remove_all(old);
}

} // namespace

TensorPiece whole_tensor(std::string name, Shape shape, StoredType type, void* data)
{
    Box all{Shape(shape.size(), 0), shape};
    return {std::move(name), std::move(shape), std::move(all), type, data, true};
}

std::string save_checkpoint(Comm& world, const std::string& dir, const RunState& state, std::span<const TensorPiece> pieces, i64 keep)
{
    const bool first = world.rank() == 0;
    const std::string name = checkpoint_name(state.step), temporary = dir + "/.tmp-" + name;
    succeed_together(world, [&] {
        if (!first)
            return;
        make_folders(dir);
        remove_leftovers(dir);
        make_folders(temporary);
    });
    try {
        Manifest part;
        succeed_together(world, [&] {
            part = save_pieces(temporary, world.rank(), state.step, pieces);
            if (first) {
                write_state(temporary + "/" + state_file, state);
                part.files.insert(part.files.begin(), finished_file(temporary, state_file));
            }
        });
        const std::vector<std::string> parts = gather_to_first(world, print_manifest(part));
        succeed_together(world, [&] {
            if (!first)
                return;
            const Manifest manifest = merge_manifests(parts);
            require_all_files(temporary, manifest);
            write_file(temporary + "/" + manifest_file, print_manifest(manifest));
            sync_path(temporary);
            put_in_place(dir, temporary, name);
        });
    } catch (...) {
        std::error_code ignored;
        if (first)
            fs::remove_all(temporary, ignored);
        throw;
    }
    succeed_together(world, [&] {
        if (!first)
            return;
        write_file(dir + "/latest", name + "\n");
        prune(dir, name, keep);
    });
    return dir + "/" + name;
}

} // namespace trivium
