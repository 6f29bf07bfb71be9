#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/f16.hpp"
#include "io/files/folders.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace trivium {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "values are read and written without conversion");

namespace {

constexpr const char* index_name = "model.safetensors.index.json";

/// Reads to.size() bytes at offset `at`. Opens the file in each call, because a model may have more shards
/// than the limit on open files.
void read_at(const std::string& path, Bytes at, std::span<std::byte> to)
{
    struct Descriptor {
        int number;
        ~Descriptor() { ::close(number); }
    } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.number < 0)
        throw_errno(path, "open");
    while (!to.empty()) {
        const ssize_t got = TEMP_FAILURE_RETRY(::pread(file.number, to.data(), to.size(), at));
        if (got < 0)
            throw_errno(path, "read");
        if (got == 0)
            throw UserError({path, "is truncated", "it became shorter while it was read",
                             "get the file again from where it came from"});
        to = to.subspan(static_cast<std::size_t>(got));
        at += got;
    }
}

SafetensorsHeader read_header(const std::string& path)
{
    const Bytes bytes = file_size(path, "safetensors file");
    std::string front(static_cast<std::size_t>(std::min<Bytes>(bytes, 64)),
                      '\0'); // shows what else it may be
    read_at(path, 0, std::as_writable_bytes(std::span(front)));
    u64 length = 0;
    std::memcpy(&length, front.data(), std::min<std::size_t>(8, front.size()));
    if (front.size() >= 8 && length <= static_cast<u64>(std::min(max_header_bytes, bytes - 8))) {
        front.resize(8 + length);
        read_at(path, 0, std::as_writable_bytes(std::span(front)));
    }
    return parse_safetensors_header(front, bytes, path);
}

/// Whether `name` is the name of a shard in the same folder. An index must not refer to files elsewhere.
bool is_shard_name(const std::string& name)
{
    return name.ends_with(".safetensors") && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos && !name.starts_with(".");
}

/// weight_map: the file of each tensor.
std::map<std::string, std::string> read_index(const std::string& path)
{
    const auto refuse = [&](const std::string& problem) {
        throw UserError({path, problem, "it is not an index of shards, or it is damaged",
                         "get the folder again from where it came from"});
    };
    const Json json = parse_strict_json(read_file(path, "index of shards", max_index_bytes), path);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object() ||
        json["weight_map"].empty())
        refuse("has no weight_map");
    std::map<std::string, std::string> shards;
    for (const auto& [name, shard] : json["weight_map"].items()) {
        if (!shard.is_string() || !is_shard_name(shard.get_ref<const std::string&>()))
            refuse("names no file of its folder for tensor " + in_quotes(name));
        shards[name] = shard.get<std::string>();
    }
    return shards;
}

/// Reads values of type `Stored` and converts them to float, with a buffer of bounded size.
template <class Stored, class Widen>
void read_widened(const SafetensorsReader& reader, const SafetensorsEntry& tensor, i64 first,
                  std::span<float> to, const Widen& widen)
{
    std::vector<Stored> buffer(std::min<std::size_t>(to.size(), std::size_t{1} << 18));
    for (std::size_t done = 0; done < to.size();) {
        const std::size_t count = std::min(buffer.size(), to.size() - done);
        reader.read(tensor, (first + static_cast<i64>(done)) * static_cast<Bytes>(sizeof(Stored)),
                    std::as_writable_bytes(std::span(buffer).first(count)));
        std::transform(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count),
                       to.begin() + static_cast<std::ptrdiff_t>(done), widen);
        done += count;
    }
}

} // namespace

struct SafetensorsReader::File {
    std::string path;
    Bytes data_begin;
};

SafetensorsReader SafetensorsReader::open(const std::string& path)
{
    SafetensorsReader reader;
    if (!fs::is_directory(path)) {
        reader.add(path, nullptr, "");
    } else if (const std::string index = file_in_folder(path, index_name); !index.empty()) {
        const std::map<std::string, std::string> shards = read_index(index);
        std::map<std::string, i64> expected; // number of tensors in each file
        for (const auto& [name, shard] : shards)
            ++expected[shard];
        for (const auto& [shard, count] : expected) {
            const std::string file = file_in_folder(path, shard);
            if (file.empty())
                throw UserError({path + "/" + shard, "is missing",
                                 str(index_name, " lists ", count, " tensors in it"),
                                 "get the folder again from where it came from"});
            reader.add(file, &shards, shard);
        }
        for (const auto& [name, shard] : shards)
            if (!reader.files_.contains(name))
                throw UserError({path + "/" + shard, "has no tensor " + in_quotes(name),
                                 str(index_name, " lists it there"),
                                 "get the folder again from where it came from"});
    } else if (const std::string file = file_in_folder(path, "model.safetensors"); !file.empty()) {
        reader.add(file, nullptr, "");
    } else {
        throw UserError({path, str("has neither model.safetensors nor ", index_name), "",
                         "name a folder that save_pretrained of transformers has written, in safetensors"});
    }
    std::sort(reader.tensors_.begin(), reader.tensors_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return reader;
}

void SafetensorsReader::add(const std::string& path, const std::map<std::string, std::string>* names,
                            const std::string& shard)
{
    SafetensorsHeader header = read_header(path);
    const auto file = std::make_shared<const File>(File{path, header.data_begin});
    for (SafetensorsEntry& tensor : header.tensors) {
        if (names) {
            const auto place = names->find(tensor.name);
            if (place == names->end() || place->second != shard)
                throw UserError({path, "has a tensor " + in_quotes(tensor.name),
                                 place == names->end() ? str(index_name, " does not list it")
                                                       : str(index_name, " lists it in ", place->second),
                                 "get the folder again from where it came from"});
        }
        files_[tensor.name] = file;
        tensors_.push_back(std::move(tensor));
    }
}

const SafetensorsEntry* SafetensorsReader::find(const std::string& name) const
{
    const auto at =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const SafetensorsEntry& a, const std::string& b) { return a.name < b; });
    return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

Bytes SafetensorsReader::bytes() const
{
    Bytes sum = 0;
    for (const SafetensorsEntry& tensor : tensors_)
        sum += tensor.bytes;
    return sum;
}

void SafetensorsReader::read(const SafetensorsEntry& tensor, Bytes begin, std::span<std::byte> to) const
{
    const auto size = static_cast<Bytes>(to.size());
    TRV_CHECK(begin >= 0 && begin <= tensor.bytes && size <= tensor.bytes - begin, tensor.name, " has ",
              tensor.bytes, " bytes");
    const File& file = *files_.at(tensor.name);
    read_at(file.path, file.data_begin + tensor.begin + begin, to);
}

void SafetensorsReader::read(const SafetensorsEntry& tensor, i64 first, std::span<float> to) const
{
    if (tensor.type == "F32")
        read(tensor, first * 4, std::as_writable_bytes(to));
    else if (tensor.type == "BF16")
        read_widened<bf16>(*this, tensor, first, to, [](bf16 value) { return static_cast<float>(value); });
    else if (tensor.type == "F16")
        read_widened<f16>(*this, tensor, first, to, [](f16 value) { return static_cast<float>(value); });
    else if (tensor.type == "F64")
        read_widened<double>(*this, tensor, first, to,
                             [](double value) { return static_cast<float>(value); });
    else
        throw UserError({files_.at(tensor.name)->path,
                         str("tensor ", in_quotes(tensor.name), " is of type ", tensor.type),
                         "F32, BF16, F16 and F64 can be read",
                         "use a version of the model that is not quantised"});
}

} // namespace trivium
