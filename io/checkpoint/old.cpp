// Checkpoints of versions 1 and 2: whole-file hashes, and all pieces in the manifest. Version 1 was one
// process's, with whole tensors in state.h5.
#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/source.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/json_value.hpp"

#include <algorithm>
#include <map>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr const char* state_file = "state.h5";
constexpr std::size_t most_open_old_files = 32;

struct OldManifest {
    struct File {
        std::string name; ///< state.h5 or shard-NUMBER.h5, beside the manifest
        Bytes bytes = 0;
        std::string xxh64;
    };
    struct Piece {
        std::string file;
        std::string dataset; ///< the tensor's name, or NAME@1, NAME@2, … where a file has several boxes of it
        Box box;
    };
    struct Tensor {
        std::string name;
        DType type = DType::f32;
        Shape shape;
        std::vector<Piece> pieces;
    };

    i64 version = 0;
    i64 step = 0;
    std::vector<File> files;
    std::vector<Tensor> tensors; ///< sorted by name; none in version 1, whose state.h5 lists them
};

bool all_digits(std::string_view text)
{
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Names of a checkpoint's own files: no manifest leads a reader elsewhere.
bool is_file_name(std::string_view name)
{
    constexpr std::string_view prefix = "shard-", suffix = ".h5";
    return name == state_file ||
           (name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) &&
            name.ends_with(suffix) &&
            all_digits(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size())));
}

bool is_dataset_of(std::string_view dataset, std::string_view tensor)
{
    return dataset == tensor ||
           (dataset.size() > tensor.size() && dataset.starts_with(tensor) && dataset[tensor.size()] == '@' &&
            all_digits(dataset.substr(tensor.size() + 1)));
}

/// Reads JSON. Throws JsonFault where it has another form, or the content is wrong.
struct Parser {
    static Shape shape(const Json& value)
    {
        Shape extents;
        for (const Json& extent : json_list(value, "shape"))
            extents.push_back(json_count(extent, "shape"));
        return extents;
    }

    static OldManifest::File file(const Json& value)
    {
        OldManifest::File file{text_at(value, "name"), count_at(value, "bytes"), text_at(value, "xxh64")};
        if (!is_file_name(file.name))
            throw JsonFault{str("lists '", file.name, "', which is no file of a checkpoint")};
        return file;
    }

    static OldManifest::Tensor tensor(const Json& value)
    {
        OldManifest::Tensor tensor;
        tensor.name = text_at(value, "name");
        const std::string& type = text_at(value, "type");
        const auto known = std::find_if(stored_types.begin(), stored_types.end(),
                                        [&](DType t) { return type == name_of(t); });
        if (known == stored_types.end())
            throw JsonFault{str("tensor '", tensor.name, "' has the type '", type, "'")};
        tensor.type = *known;
        tensor.shape = shape(json_member(value, "shape"));
        if (!safe_count(tensor.shape))
            throw JsonFault{str("tensor '", tensor.name, "' has the shape ", print_shape(tensor.shape))};
        for (const Json& piece : list_at(value, "pieces"))
            tensor.pieces.push_back(
                {text_at(piece, "file"),
                 text_at(piece, "dataset"),
                 {shape(json_member(piece, "offset")), shape(json_member(piece, "shape"))}});
        return tensor;
    }

    static OldManifest manifest(const Json& value)
    {
        OldManifest manifest;
        manifest.version = count_at(value, "version");
        manifest.step = count_at(value, "step");
        for (const Json& entry : list_at(value, "files"))
            manifest.files.push_back(file(entry));
        if (manifest.version > 1)
            for (const Json& entry : list_at(value, "tensors"))
                manifest.tensors.push_back(tensor(entry));
        return manifest;
    }
};

std::string fault_of(const OldManifest::Tensor& tensor, const std::map<std::string, Bytes>& files)
{
    std::vector<Box> boxes;
    for (const OldManifest::Piece& piece : tensor.pieces) {
        if (!is_inside(piece.box, tensor.shape) || element_count(piece.box.shape) == 0)
            return str("has a piece ", print_box(piece.box), ", its shape is ", print_shape(tensor.shape));
        const auto file = files.find(piece.file);
        if (file == files.end())
            return str("has a piece in '", piece.file, "', which is not listed");
        if (element_count(piece.box.shape) > file->second / size_of(tensor.type))
            return str("has a piece ", print_box(piece.box), " in ", piece.file, ", a file of ", file->second,
                       " bytes");
        if (!is_dataset_of(piece.dataset, tensor.name))
            return str("has a piece in a dataset '", piece.dataset, "'");
        boxes.push_back(piece.box);
    }
    return tiling_fault(tensor.shape, boxes);
}

/// What is wrong with the manifest as a whole, or "".
std::string fault_of(const OldManifest& manifest)
{
    std::map<std::string, Bytes> files;
    for (const OldManifest::File& file : manifest.files)
        if (!files.emplace(file.name, file.bytes).second)
            return str("lists ", file.name, " twice");
    if (!files.contains(state_file))
        return str("does not list ", state_file);
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        const OldManifest::Tensor& tensor = manifest.tensors[i];
        if (i > 0 && manifest.tensors[i - 1].name == tensor.name)
            return str("lists tensor '", tensor.name, "' twice");
        if (const std::string fault = fault_of(tensor, files); !fault.empty())
            return str("tensor '", tensor.name, "' ", fault);
    }
    return "";
}

/// \throws DamagedCheckpoint
OldManifest parse_old_manifest(const std::string& text, const std::string& path)
{
    OldManifest manifest;
    try {
        const Json json = parse_json(text);
        if (json_member(json, "format") != checkpoint_kind)
            throw JsonFault{"is of another kind"};
        manifest = Parser::manifest(json);
    } catch (const JsonFault& fault) {
        throw DamagedCheckpoint(path, "its manifest " + fault.text);
    }
    std::sort(manifest.tensors.begin(), manifest.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    if (const std::string fault = fault_of(manifest); !fault.empty())
        throw DamagedCheckpoint(path, "its manifest: " + fault);
    return manifest;
}

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

class OldSource : public CheckpointSource {
public:
    OldSource(const std::string& path, const std::string& text)
        : path_(path), manifest_(parse_old_manifest(text, path))
    {
        version = manifest_.version;
        for (const OldManifest::File& file : manifest_.files) {
            open_stored(path + "/" + file.name, file.bytes); // its size
            bytes += file.bytes;
        }
        shards = static_cast<i64>(manifest_.files.size()) - (version == 1 ? 0 : 1);
        try {
            const h5::File& file = opened(state_file).hdf5;
            if (file.get_string("format") != checkpoint_kind || file.get_integer("version") != version)
                damaged(str(state_file, " is not of version ", version, ", as its manifest claims"));
            state = read_state(file);
            if (version == 1)
                list_whole_tensors(file);
        } catch (const DamagedCheckpoint&) {
            throw;
        } catch (const InternalError&) {
            throw;
        } catch (const Error& error) { // HDF5 could not make sense of it
            damaged(error.what());
        }
        if (state.step != manifest_.step)
            damaged(
                str("its manifest is of step ", manifest_.step, ", ", state_file, " of step ", state.step));
    }

    i64 tensors() const override { return static_cast<i64>(manifest_.tensors.size()); }

    TensorHead head(i64 tensor) const override
    {
        const OldManifest::Tensor& t = at(tensor);
        return {t.name, t.type, t.shape, static_cast<i64>(t.pieces.size()), 0};
    }

    std::optional<i64> find(const std::string& name) const override
    {
        const auto found = std::lower_bound(manifest_.tensors.begin(), manifest_.tensors.end(), name,
                                            [](const auto& t, const std::string& n) { return t.name < n; });
        if (found == manifest_.tensors.end() || found->name != name)
            return std::nullopt;
        return found - manifest_.tensors.begin();
    }

    void visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& see) const override
    {
        for (i64 number = 0; const OldManifest::Piece& piece : at(tensor).pieces)
            see({0, number++, 0, piece.box});
    }

    Place locate(const TensorHead& tensor, const StoredPiece& piece) override
    {
        const OldManifest::Tensor& t = at(*find(tensor.name));
        const OldManifest::Piece& p = t.pieces[static_cast<std::size_t>(piece.number)];
        File& file = opened(p.file);
        const h5::Dataset data = file.hdf5.dataset(p.dataset);
        const auto require = [&](const char* what, const Shape& found, const Shape& claimed) {
            if (found != claimed)
                damaged(str(p.file, " has tensor '", t.name, "' with ", what, " ", print_shape(found),
                            ", its manifest claims ", print_shape(claimed)));
        };
        if (data.type() != t.type)
            damaged(str(p.file, " has tensor '", t.name, "' as ", name_of(data.type()),
                        ", its manifest claims ", name_of(t.type)));
        require("shape", data.shape(), p.box.shape);
        if (version > 1) {
            require("offset", data.get_integers("offset"), p.box.offset);
            require("whole shape", data.get_integers("whole"), t.shape);
        }
        return {&file.data, data.file_offset()};
    }

    void check(i64 part, i64 parts) override
    {
        for (i64 i = part; i < static_cast<i64>(manifest_.files.size()); i += parts)
            opened(manifest_.files[static_cast<std::size_t>(i)].name);
    }

    void verify(i64 part, i64 parts) override
    {
        for (i64 tensor = part; tensor < tensors(); tensor += parts)
            visit_pieces(tensor, [&](const StoredPiece& piece) { locate(head(tensor), piece); });
    }

private:
    struct File {
        h5::File hdf5;
        BlockReader data; ///< all of the file
    };

    [[noreturn]] void damaged(const std::string& problem) const { throw DamagedCheckpoint(path_, problem); }

    const OldManifest::Tensor& at(i64 tensor) const
    {
        return manifest_.tensors[static_cast<std::size_t>(tensor)];
    }

    /// The file, open; its hash is right: the library can crash on damaged metadata.
    File& opened(const std::string& name)
    {
        if (const auto known = files_.find(name); known != files_.end())
            return known->second;
        const auto listed = std::find_if(manifest_.files.begin(), manifest_.files.end(),
                                         [&](const OldManifest::File& file) { return file.name == name; });
        if (listed == manifest_.files.end())
            damaged("its manifest does not list " + name);
        const std::string place = path_ + "/" + name;
        if (files_.size() >= most_open_old_files)
            files_.clear();
        PlainFile file = open_stored(place, listed->bytes);
        if (hex(hash_file(place)) != listed->xxh64)
            damaged(str(name, " has not the bytes that were written (its hash differs)"));
        try {
            return files_
                .emplace(name,
                         File{h5::File::open(place), BlockReader(std::move(file), 0, listed->bytes, {})})
                .first->second;
        } catch (const UserError& error) { // HDF5 could not make sense of it
            damaged(error.what());
        }
    }

    /// Version 1: state.h5 has the tensors, each in one piece.
    void list_whole_tensors(const h5::File& file)
    {
        for (const std::string& name : file.dataset_names()) {
            if (name == "config")
                continue;
            const h5::Dataset data = file.dataset(name);
            if (data.type() != DType::f32 && data.type() != DType::f64)
                damaged(str("tensor ", name, " has type ", name_of(data.type())));
            manifest_.tensors.push_back(
                {name,
                 data.type(),
                 data.shape(),
                 {{state_file, name, {Shape(data.shape().size(), 0), data.shape()}}}});
        }
    }

    std::string path_;
    OldManifest manifest_;
    std::map<std::string, File> files_; ///< open
};

} // namespace

std::unique_ptr<CheckpointSource> open_old_source(const std::string& path, const std::string& manifest)
{
    return std::make_unique<OldSource>(path, manifest);
}

} // namespace trivium
