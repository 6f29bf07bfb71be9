#include "io/manifest.hpp"

#include "base/check.hpp"
#include "io/box.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace trivium {

using Json = nlohmann::ordered_json;

namespace {

bool all_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

/// Names of a checkpoint's own files: no manifest leads a reader elsewhere.
bool is_file_name(std::string_view name)
{
    constexpr std::string_view prefix = "shard-", suffix = ".h5";
    return name == state_file || (name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
                                  all_digits(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size())));
}

bool is_dataset_of(std::string_view dataset, std::string_view tensor)
{
    return dataset == tensor ||
           (dataset.size() > tensor.size() && dataset.starts_with(tensor) && dataset[tensor.size()] == '@' && all_digits(dataset.substr(tensor.size() + 1)));
}

struct Fault {
    std::string text; ///< "has …", "lists …"
};

/// Reads JSON into a Manifest. Throws Json::exception where it has another form, Fault where the content is wrong.
struct Parser {
    /// A whole number from 0 on. (Conversions of the library would cut fractions and wrap large numbers.)
    static i64 number(const Json& value)
    {
        if (!value.is_number_integer() || value.get<i64>() < 0)
            throw Fault{str("has ", value.dump(), " where a count should be")};
        return value.get<i64>();
    }

    static Shape shape(const Json& value)
    {
        Shape extents;
        for (const Json& extent : value.get_ref<const Json::array_t&>())
            extents.push_back(number(extent));
        return extents;
    }

    static Manifest::File file(const Json& value)
    {
        Manifest::File file{value.at("name").get<std::string>(), number(value.at("bytes")), value.at("xxh64").get<std::string>()};
        if (!is_file_name(file.name))
            throw Fault{str("lists '", file.name, "', which is no file of a checkpoint")};
        return file;
    }

    static Manifest::Tensor tensor(const Json& value)
    {
        Manifest::Tensor tensor;
        tensor.name = value.at("name").get<std::string>();
        const auto type = value.at("type").get<std::string>();
        const auto& types = names_of_enum<StoredType>;
        const auto known = std::find(types.begin(), types.end(), type);
        if (known == types.end())
            throw Fault{str("tensor '", tensor.name, "' has the type '", type, "'")};
        tensor.type = static_cast<StoredType>(known - types.begin());
        tensor.shape = shape(value.at("shape"));
        if (!safe_count(tensor.shape))
            throw Fault{str("tensor '", tensor.name, "' has the shape ", print_shape(tensor.shape))};
        for (const Json& piece : value.at("pieces"))
            tensor.pieces.push_back({piece.at("file").get<std::string>(), piece.at("dataset").get<std::string>(),
                                     {shape(piece.at("offset")), shape(piece.at("shape"))}});
        return tensor;
    }

    static Manifest manifest(const Json& value)
    {
        Manifest manifest;
        manifest.version = number(value.at("version"));
        manifest.step = number(value.at("step"));
        for (const Json& entry : value.at("files"))
            manifest.files.push_back(file(entry));
        if (manifest.version > 1)
            for (const Json& entry : value.at("tensors"))
                manifest.tensors.push_back(tensor(entry));
        return manifest;
    }
};

std::string fault_of(const Manifest::Tensor& tensor, const std::map<std::string, Bytes>& files)
{
    std::vector<Box> boxes;
    for (const Manifest::Piece& piece : tensor.pieces) {
        if (!is_inside(piece.box, tensor.shape) || element_count(piece.box.shape) == 0)
            return str("has a piece ", print_box(piece.box), ", its shape is ", print_shape(tensor.shape));
        const auto file = files.find(piece.file);
        if (file == files.end())
            return str("has a piece in '", piece.file, "', which is not listed");
        if (element_count(piece.box.shape) > file->second / size_of(tensor.type))
            return str("has a piece ", print_box(piece.box), " in ", piece.file, ", a file of ", file->second, " bytes");
        if (!is_dataset_of(piece.dataset, tensor.name))
            return str("has a piece in a dataset '", piece.dataset, "'");
        boxes.push_back(piece.box);
    }
    return tiling_fault(tensor.shape, boxes);
}

/// What is wrong with the manifest as a whole, or "".
std::string fault_of(const Manifest& manifest)
{
    std::map<std::string, Bytes> files;
    for (const Manifest::File& file : manifest.files)
        if (!files.emplace(file.name, file.bytes).second)
            return str("lists ", file.name, " twice");
    if (!files.contains(state_file))
        return str("does not list ", state_file);
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        const Manifest::Tensor& tensor = manifest.tensors[i];
        if (i > 0 && manifest.tensors[i - 1].name == tensor.name)
            return str("lists tensor '", tensor.name, "' twice");
        if (const std::string fault = fault_of(tensor, files); !fault.empty())
            return str("tensor '", tensor.name, "' ", fault);
    }
    return "";
}

void sort_by_name(std::vector<Manifest::Tensor>& tensors)
{
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

} // namespace

std::string shard_file(int rank)
{
    char name[32];
    std::snprintf(name, sizeof name, "shard-%05d.h5", rank);
    return name;
}

void throw_damaged_checkpoint(const std::string& path, const std::string& problem)
{
    throw UserError({path, problem, "this checkpoint is damaged or incomplete",
                     "use another one (checkpoint.resume), or restore it from a copy"});
}

std::string print_manifest(const Manifest& manifest)
{
    std::string text = str("{\n  \"format\": ", Json(checkpoint_kind).dump(), ",\n  \"version\": ", manifest.version, ",\n  \"step\": ", manifest.step);
    const auto list = [&](const char* key, const auto& entries, const auto& json_of) {
        text += str(",\n  \"", key, "\": [");
        for (std::size_t i = 0; i < entries.size(); ++i)
            text += str(i > 0 ? "," : "", "\n    ", json_of(entries[i]).dump());
        text += "\n  ]";
    };
    list("files", manifest.files, [](const Manifest::File& file) { return Json{{"name", file.name}, {"bytes", file.bytes}, {"xxh64", file.xxh64}}; });
    list("tensors", manifest.tensors, [](const Manifest::Tensor& tensor) {
        Json pieces = Json::array();
        for (const Manifest::Piece& piece : tensor.pieces)
            pieces.push_back({{"file", piece.file}, {"dataset", piece.dataset}, {"offset", piece.box.offset}, {"shape", piece.box.shape}});
        return Json{{"name", tensor.name}, {"type", name_of(tensor.type)}, {"shape", tensor.shape}, {"pieces", pieces}};
    });
    return text + "\n}\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path)
{
    const Json json = Json::parse(text, nullptr, false);
    Manifest manifest;
    try {
        if (json.at("format") != checkpoint_kind)
            throw_damaged_checkpoint(path, "its manifest is of another kind");
        const Json& version = json.at("version");
        if (!version.is_number_integer() || version < 1 || version > checkpoint_version)
            throw UserError({path, str("is a checkpoint of version ", version.dump()), str("this program reads versions 1 to ", checkpoint_version),
                             "use the program that wrote it"});
        manifest = Parser::manifest(json);
    } catch (const Json::exception& error) {
        throw_damaged_checkpoint(path, str("its manifest cannot be read: ", error.what()));
    } catch (const Fault& fault) {
        throw_damaged_checkpoint(path, "its manifest " + fault.text);
    }
    sort_by_name(manifest.tensors);
    if (const std::string fault = fault_of(manifest); !fault.empty())
        throw_damaged_checkpoint(path, "its manifest: " + fault);
    return manifest;
}

namespace {

Manifest parse_part(const std::string& text)
{
    try {
        return Parser::manifest(Json::parse(text));
    } catch (const Fault& fault) {
        TRV_CHECK(false, "a rank ", fault.text);
    }
    return {};
}

} // namespace

Manifest merge_manifests(const std::vector<std::string>& parts)
{
    Manifest all;
    std::map<std::string, std::size_t> index;
    for (const std::string& text : parts) {
        Manifest part = parse_part(text);
        all.step = std::max(all.step, part.step);
        all.files.insert(all.files.end(), part.files.begin(), part.files.end());
        for (Manifest::Tensor& tensor : part.tensors) {
            const auto [at, is_new] = index.emplace(tensor.name, all.tensors.size());
            if (is_new) {
                all.tensors.push_back(std::move(tensor));
                continue;
            }
            Manifest::Tensor& known = all.tensors[at->second];
            TRV_CHECK(known.type == tensor.type && known.shape == tensor.shape, "tensor '", tensor.name, "' is ", name_of(known.type),
                      print_shape(known.shape), " on one rank and ", name_of(tensor.type), print_shape(tensor.shape), " on another");
            std::move(tensor.pieces.begin(), tensor.pieces.end(), std::back_inserter(known.pieces));
        }
    }
    sort_by_name(all.tensors);
    const std::string fault = fault_of(all);
    TRV_CHECK(fault.empty(), "the pieces to save do not make whole tensors: ", fault);
    return all;
}

} // namespace trivium
