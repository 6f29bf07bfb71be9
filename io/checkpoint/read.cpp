#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "ir/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t max_open_files = 32;

/// The data of a piece: in those of its shard, which stay open until another shard is opened.
struct Place {
    BlockReader* file;
    Bytes offset;
};

/// Copies elements and converts their type.
template <class From, class To>
void convert(const std::byte* from, i64 count, std::byte* to)
{
    for (i64 i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, from + i * static_cast<i64>(sizeof(From)), sizeof(From));
        const To converted = static_cast<To>(value);
        std::memcpy(to + i * static_cast<i64>(sizeof(To)), &converted, sizeof(To));
    }
}

/// Reads elements that are contiguous in the file into contiguous memory.
void read_run(const Place& from, i64 first, i64 count, DType stored, DType type, std::byte* to)
{
    const Bytes begin = from.offset + first * size_of(stored);
    if (stored == type)
        return from.file->read(begin, to, count * size_of(stored));
    std::byte part[std::size_t{1} << 13];
    const auto at_once = static_cast<i64>(sizeof part) / size_of(stored);
    for (i64 done = 0; done < count; done += at_once) {
        const i64 some = std::min(at_once, count - done);
        from.file->read(begin + done * size_of(stored), part, some * size_of(stored));
        if (stored == DType::f32)
            convert<float, double>(part, some, to + done * 8);
        else
            convert<double, float>(part, some, to + done * 4);
    }
}

/// Flattened index of the element at `at` in an array of this shape that begins at `origin`.
i64 index_of(const Shape& at, const Shape& origin, const Shape& shape)
{
    i64 index = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
        index = index * shape[d] + at[d] - origin[d];
    return index;
}

/// Copies `common`, the intersection of the box `stored` (in the file) and the box `target` (in memory at
/// `to`).
void read_common(const Place& from, const Box& stored, const Box& common, DType stored_type,
                 const Box& target, DType type, std::byte* to)
{
    // A run covers the trailing dimensions that are complete in both boxes, and the dimension before them.
    std::size_t inner = common.shape.size();
    i64 run = 1;
    while (inner > 0) {
        --inner;
        run *= common.shape[inner];
        if (common.shape[inner] != stored.shape[inner] || common.shape[inner] != target.shape[inner])
            break;
    }
    Shape at = common.offset;
    for (i64 runs = element_count(common.shape) / run; runs > 0; --runs) {
        read_run(from, index_of(at, stored.offset, stored.shape), run, stored_type, type,
                 to + index_of(at, target.offset, target.shape) * size_of(type));
        for (std::size_t d = inner; d-- > 0;) {
            if (++at[d] < common.offset[d] + common.shape[d])
                break;
            at[d] = common.offset[d];
        }
    }
}

/// UserError if `path` is not a checkpoint; DamagedCheckpoint, IoError.
Manifest read_manifest(const std::string& path)
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
    return parse_manifest(text, path);
}

} // namespace

struct CheckpointReader::Impl {
    explicit Impl(const std::string& folder)
        : path(folder), manifest(read_manifest(folder)),
          index(Index::open(path + "/" + index_file, manifest.index, manifest.block_bytes))
    {
    }

    i64 find(const std::string& name) const
    {
        if (averages && name.starts_with(parameter_prefix))
            if (const std::optional<i64> found =
                    index.find(str(average_prefix, name.substr(parameter_prefix.size()))))
                return *found;
        if (const std::optional<i64> found = index.find(name))
            return *found;
        std::vector<std::string> names;
        for (i64 i = 0; i < index.size(); ++i)
            names.push_back(index.head(i).name);
        const std::string near = nearest_word(name, names);
        throw UserError(
            {path, str("has no tensor '", name, "'"),
             near.empty() ? str("it has ", names.size(), " others: a checkpoint of another model")
                          : str("the nearest is '", near, "'; a checkpoint of another model?"),
             "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    }

    void read(i64 tensor, const Box& target, DType type, std::byte* to)
    {
        const TensorHead head = index.head(tensor);
        i64 missing = element_count(target.shape);
        index.visit_pieces(tensor, [&](const StoredPiece& piece) {
            if (const std::optional<Box> common = common_part(piece.box, target)) {
                read_common(locate(head, piece), piece.box, *common, head.type, target, type, to);
                missing -= element_count(common->shape);
            }
        });
        if (missing != 0)
            throw DamagedCheckpoint(path, str("tensor '", head.name, "' has a hole, or pieces that overlap"));
    }

    /// Opens the shard of a piece. DamagedCheckpoint if the piece is not inside the data of a listed shard.
    Place locate(const TensorHead& tensor, const StoredPiece& piece)
    {
        if (piece.shard >= static_cast<i64>(manifest.shards.size()))
            throw DamagedCheckpoint(path, str("tensor '", tensor.name, "' has a piece in ",
                                              shard_file(piece.shard), ", which is not listed"));
        BlockReader& file = opened(piece.shard);
        if (piece.offset > file.bytes() ||
            element_count(piece.box.shape) > (file.bytes() - piece.offset) / size_of(tensor.type))
            throw DamagedCheckpoint(path, str("tensor '", tensor.name, "' has a piece past the end of ",
                                              shard_file(piece.shard)));
        return {&file, piece.offset};
    }

    void check(i64 part, i64 parts)
    {
        index.verify(part, parts);
        for (i64 shard = part; shard < static_cast<i64>(manifest.shards.size()); shard += parts)
            if (manifest.shards[static_cast<std::size_t>(shard)].bytes > 0)
                opened(shard);
    }

    /// The data of the shards, and that the HDF5 datasets match the index.
    void verify(i64 part, i64 parts)
    {
        std::map<i64, h5::File> hdf5;
        for (i64 shard = part; shard < static_cast<i64>(manifest.shards.size()); shard += parts)
            if (manifest.shards[static_cast<std::size_t>(shard)].bytes > 0) {
                opened(shard).verify(0, 1);
                hdf5.emplace(shard, h5::File::open(path + "/" + shard_file(shard)));
                if (hdf5.size() == max_open_files) {
                    check_datasets(hdf5);
                    hdf5.clear();
                }
            }
        check_datasets(hdf5);
    }

    /// Checks that the HDF5 datasets of these shards, which other programs read, match the index.
    void check_datasets(const std::map<i64, h5::File>& hdf5) const
    {
        std::string before;
        for (i64 tensor = 0; tensor < index.size() && !hdf5.empty(); ++tensor) {
            const TensorHead h = index.head(tensor);
            if (tensor > 0 && h.name <= before)
                throw DamagedCheckpoint(path, str("its index has '", h.name, "' after '", before, "'"));
            before = h.name;
            i64 missing = element_count(h.shape);
            index.visit_pieces(tensor, [&](const StoredPiece& piece) {
                missing -= element_count(piece.box.shape);
                if (const auto file = hdf5.find(piece.shard); file != hdf5.end())
                    check_dataset(file->second, dataset_name(h.name, piece.number),
                                  {h.name, h.shape, piece.box, h.type, nullptr, true, {}},
                                  manifest.shards[static_cast<std::size_t>(piece.shard)].header +
                                      piece.offset);
            });
            if (missing != 0)
                throw DamagedCheckpoint(path,
                                        str("tensor '", h.name, "' has a hole, or pieces that overlap"));
        }
    }

    BlockReader& opened(i64 shard)
    {
        if (const auto known = files.find(shard); known != files.end())
            return known->second;
        if (files.size() >= max_open_files)
            files.clear();
        return files
            .emplace(shard,
                     open_shard(path + "/" + shard_file(shard),
                                manifest.shards[static_cast<std::size_t>(shard)], manifest.block_bytes))
            .first->second;
    }

    std::string path;
    Manifest manifest;
    Index index;
    bool averages = false;            ///< read_averages()
    std::map<i64, BlockReader> files; ///< open now
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const std::string& path)
{
    return CheckpointReader(std::make_unique<Impl>(path));
}

const std::string& CheckpointReader::path() const { return impl_->path; }
const RunState& CheckpointReader::state() const { return impl_->manifest.state; }
bool CheckpointReader::has(const std::string& name) const { return impl_->index.find(name).has_value(); }
void CheckpointReader::read_averages() const
{
    const std::vector<Entry> all = tensors();
    if (std::ranges::none_of(all, [](const Entry& e) { return e.name.starts_with(average_prefix); }))
        throw UserError({path(), "has no averaged weights", "its run had no train.ema",
                         "leave out --average, or name a checkpoint of a run with train.ema"});
    impl_->averages = true;
}

i64 CheckpointReader::version() const { return checkpoint_version; }
void CheckpointReader::check(i64 part, i64 parts) const { impl_->check(part, parts); }

Bytes CheckpointReader::bytes() const
{
    Bytes bytes = impl_->manifest.index.bytes;
    for (const Shard& shard : impl_->manifest.shards)
        bytes += shard.bytes;
    return bytes;
}

i64 CheckpointReader::shards() const
{
    const std::vector<Shard>& all = impl_->manifest.shards;
    return std::count_if(all.begin(), all.end(), [](const Shard& shard) { return shard.bytes > 0; });
}

std::vector<CheckpointReader::Entry> CheckpointReader::tensors() const
{
    std::vector<Entry> entries;
    for (i64 i = 0; i < impl_->index.size(); ++i) {
        const TensorHead head = impl_->index.head(i);
        entries.push_back({head.name, head.shape, head.type, head.pieces});
    }
    return entries;
}

void CheckpointReader::read(const TensorPiece& into) const
{
    const i64 tensor = impl_->find(into.name);
    const Shape shape = impl_->index.head(tensor).shape;
    if (shape != into.whole)
        throw UserError(
            {impl_->path,
             str("tensor '", into.name, "' has shape ", print_shape(shape), ", the model needs ",
                 print_shape(into.whole)),
             "it is a checkpoint of another model",
             "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    TRV_CHECK(is_inside(into.box, into.whole), "tensor '", into.name, "' of shape ", print_shape(into.whole),
              " has no ", print_box(into.box));
    impl_->read(tensor, into.box, into.type, static_cast<std::byte*>(into.data));
}

void CheckpointReader::read(const std::string& name, i64 begin, i64 count, DType type, void* data) const
{
    const i64 tensor = impl_->find(name);
    const Shape shape = impl_->index.head(tensor).shape;
    TRV_CHECK(begin >= 0 && count >= 0 && count <= element_count(shape) &&
                  begin <= element_count(shape) - count,
              "tensor '", name, "': ", begin, " + ", count, " of ", element_count(shape));
    auto* to = static_cast<std::byte*>(data);
    for (const Box& box : boxes_of_range(shape, begin, count)) {
        impl_->read(tensor, box, type, to);
        to += element_count(box.shape) * size_of(type);
    }
}

void CheckpointReader::verify(i64 part, i64 parts) const
{
    check(part, parts);
    impl_->verify(part, parts);
}

} // namespace trivium
