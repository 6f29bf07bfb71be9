#include "base/check.hpp"
#include "io/box.hpp"
#include "io/checkpoint_parts.hpp"
#include "io/files.hpp"
#include "io/hash.hpp"
#include "io/manifest.hpp"

#include <filesystem>
#include <map>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_open_files = 32;

RunState read_state(const h5::File& file)
{
    RunState state;
    state.step = file.get_integer("step");
    state.updates = file.get_integer("updates");
    state.samples = file.get_integer("samples");
    state.tokens = file.get_integer("tokens");
    state.seed = file.get_integer("seed");
    state.build = file.get_string("build");
    state.tokenizer = file.get_string("tokenizer");
    state.config = file.read_bytes("config");
    if (file.has_attribute("grid")) { // since version 2
        state.grid = file.get_string("grid");
        state.ranks = file.get_integer("ranks");
    }
    return state;
}

} // namespace

struct CheckpointReader::Impl {
    [[noreturn]] void damaged(const std::string& problem) const { throw_damaged_checkpoint(path, problem); }

    const Manifest::File& listed(const std::string& name) const
    {
        for (const Manifest::File& file : manifest.files)
            if (file.name == name)
                return file;
        damaged("its manifest does not list " + name);
    }

    void check_size(const Manifest::File& file) const
    {
        const Bytes found = file_size(path + "/" + file.name, "checkpoint file");
        if (found != file.bytes)
            damaged(str(file.name, " has ", found, " bytes, ", file.bytes, " were written", found < file.bytes ? " (truncated)" : ""));
    }

    void check_hash_of(const Manifest::File& file)
    {
        if (checked[file.name])
            return;
        if (hex(hash_file(path + "/" + file.name)) != file.xxh64)
            damaged(str(file.name, " has not the bytes that were written (its hash differs)"));
        checked[file.name] = true;
    }

    /// The file, open; checked first where that is wanted.
    h5::File& opened(const std::string& name)
    {
        if (const auto known = files.find(name); known != files.end())
            return known->second;
        if (check_hash) // first: the library can crash on damaged metadata
            check_hash_of(listed(name));
        if (files.size() >= most_open_files)
            files.clear();
        try {
            return files.emplace(name, h5::File::open(path + "/" + name)).first->second;
        } catch (const IoError& error) { // HDF5 could not make sense of it
            damaged(error.what());
        }
    }

    /// A piece's dataset, which is what the manifest says.
    h5::Dataset dataset(const Manifest::Tensor& tensor, const Manifest::Piece& piece)
    {
        h5::Dataset data = opened(piece.file).dataset(piece.dataset);
        const auto require = [&](const char* what, const Shape& found, const Shape& claimed) {
            if (found != claimed)
                damaged(str(piece.file, " has tensor '", tensor.name, "' with ", what, " ", print_shape(found), ", its manifest claims ", print_shape(claimed)));
        };
        if (data.type() != type_of(tensor.type))
            damaged(str(piece.file, " has tensor '", tensor.name, "' as ", h5::name_of(data.type()), ", its manifest claims ", name_of(tensor.type)));
        require("shape", data.shape(), piece.box.shape);
        if (manifest.version > 1) {
            require("offset", data.get_integers("offset"), piece.box.offset);
            require("whole shape", data.get_integers("whole"), tensor.shape);
        }
        data.file_offset(); // the content is in this file
        return data;
    }

    /// Version 1: state.h5 has the tensors, each in one piece.
    void list_whole_tensors()
    {
        const h5::File& file = opened(state_file);
        for (const std::string& name : file.dataset_names()) {
            if (name == "config")
                continue;
            const h5::Dataset data = file.dataset(name);
            if (data.type() != h5::Type::f32 && data.type() != h5::Type::f64)
                damaged(str("tensor ", name, " has type ", h5::name_of(data.type())));
            manifest.tensors.push_back({name, data.type() == h5::Type::f32 ? StoredType::f32 : StoredType::f64, data.shape(),
                                        {{state_file, name, {Shape(data.shape().size(), 0), data.shape()}}}});
        }
    }

    void open_all()
    {
        manifest = parse_manifest(read_file(path + "/" + manifest_file, "checkpoint manifest"), path);
        for (const Manifest::File& file : manifest.files)
            check_size(file);
        try {
            const h5::File& file = opened(state_file);
            if (file.get_string("format") != checkpoint_kind || file.get_integer("version") != manifest.version)
                damaged(str(state_file, " is not of version ", manifest.version, ", as its manifest claims"));
            state = read_state(file);
            if (manifest.version == 1)
                list_whole_tensors();
        } catch (const IoError& error) {
            damaged(error.what());
        }
        if (state.step != manifest.step)
            damaged(str("its manifest is of step ", manifest.step, ", ", state_file, " of step ", state.step));
        for (const Manifest::Tensor& tensor : manifest.tensors) {
            index[tensor.name] = entries.size();
            entries.push_back({tensor.name, tensor.shape, tensor.type, static_cast<i64>(tensor.pieces.size())});
        }
    }

    const Manifest::Tensor& find(const std::string& name) const
    {
        const auto found = index.find(name);
        if (found != index.end())
            return manifest.tensors[found->second];
        std::vector<std::string> names;
        for (const Entry& entry : entries)
            names.push_back(entry.name);
        const std::string near = nearest_word(name, names);
        throw UserError({path, str("has no tensor '", name, "'"),
                         near.empty() ? str("it has ", entries.size(), " others: a checkpoint of another model")
                                      : str("the nearest is '", near, "'; a checkpoint of another model?"),
                         "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    }

    void read(const Manifest::Tensor& tensor, const Box& box, StoredType type, void* data)
    {
        for (const Manifest::Piece& piece : tensor.pieces) {
            const std::optional<Box> common = intersection(piece.box, box);
            if (!common)
                continue;
            Box part = *common;
            Shape at = common->offset;
            for (std::size_t d = 0; d < at.size(); ++d) {
                part.offset[d] -= piece.box.offset[d];
                at[d] -= box.offset[d];
            }
            dataset(tensor, piece).read_box(part, type_of(type), box.shape, at, data);
        }
    }

    std::string path;
    bool check_hash = true;
    Manifest manifest;
    RunState state;
    std::vector<Entry> entries; ///< of manifest.tensors
    std::map<std::string, std::size_t> index;
    std::map<std::string, h5::File> files; ///< open now
    std::map<std::string, bool> checked;   ///< whose hash is right
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const std::string& path, bool check_hash)
{
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->check_hash = check_hash;
    if (!fs::is_directory(path))
        throw UserError({path, "there is no such checkpoint", "a checkpoint is a folder like step-00000100", "check the path"});
    if (!fs::exists(path + "/" + manifest_file))
        throw UserError({path, "is no complete checkpoint", str("it has no ", manifest_file), "name a folder like step-00000100 of checkpoint.dir"});
    impl->open_all();
    return CheckpointReader(std::move(impl));
}

const std::string& CheckpointReader::path() const { return impl_->path; }
const RunState& CheckpointReader::state() const { return impl_->state; }
const std::vector<CheckpointReader::Entry>& CheckpointReader::tensors() const { return impl_->entries; }
bool CheckpointReader::has(const std::string& name) const { return impl_->index.contains(name); }
i64 CheckpointReader::version() const { return impl_->manifest.version; }

Bytes CheckpointReader::bytes() const
{
    Bytes bytes = 0;
    for (const Manifest::File& file : impl_->manifest.files)
        bytes += file.bytes;
    return bytes;
}

i64 CheckpointReader::shards() const
{
    const auto files = static_cast<i64>(impl_->manifest.files.size());
    return version() == 1 ? files : files - 1;
}

void CheckpointReader::read(const TensorPiece& into) const
{
    const Manifest::Tensor& tensor = impl_->find(into.name);
    if (tensor.shape != into.whole)
        throw UserError({impl_->path, str("tensor '", into.name, "' has shape ", print_shape(tensor.shape), ", the model wants ", print_shape(into.whole)),
                         "it is a checkpoint of another model",
                         "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    TRV_CHECK(is_inside(into.box, into.whole), "tensor '", into.name, "' of shape ", print_shape(into.whole), " has no ", print_box(into.box));
    impl_->read(tensor, into.box, into.type, into.data);
}

void CheckpointReader::read(const std::string& name, i64 begin, i64 count, StoredType type, void* data) const
{
    const Manifest::Tensor& tensor = impl_->find(name);
    TRV_CHECK(begin >= 0 && count >= 0 && count <= element_count(tensor.shape) && begin <= element_count(tensor.shape) - count, "tensor '", name,
              "': ", begin, " + ", count, " of ", element_count(tensor.shape));
    auto* to = static_cast<std::byte*>(data);
    for (const Box& box : boxes_of_range(tensor.shape, begin, count)) {
        impl_->read(tensor, box, type, to);
        to += element_count(box.shape) * size_of(type);
    }
}

void CheckpointReader::verify(i64 part, i64 parts) const
{
    // File by file, so that each is opened once.
    std::map<std::string, std::vector<std::pair<const Manifest::Tensor*, const Manifest::Piece*>>> pieces;
    for (const Manifest::Tensor& tensor : impl_->manifest.tensors)
        for (const Manifest::Piece& piece : tensor.pieces)
            pieces[piece.file].emplace_back(&tensor, &piece);
    const auto files = static_cast<i64>(impl_->manifest.files.size());
    for (i64 i = part; i < files; i += parts) {
        const Manifest::File& file = impl_->manifest.files[static_cast<std::size_t>(i)];
        impl_->check_hash_of(file);
        for (const auto& [tensor, piece] : pieces[file.name])
            impl_->dataset(*tensor, *piece);
    }
}

} // namespace trivium
